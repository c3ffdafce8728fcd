package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import java.util.Iterator;
import java.util.Map;

/**
 * A function of one tensor, with the parameters that it is made of. A lambda or method reference is a layer without
 * parameters: {@code Tensor::tanh}.
 *
 * <p>A layer behaves as for inference unless {@link Mode#training} is in force on the thread. It holds no state but its
 * parameters and buffers, so several threads may call {@code forward} of one layer at once, as long as none trains it.
 */
@FunctionalInterface
public interface Layer extends AutoCloseable {
    /** Is shown what a layer holds. */
    interface Visitor {
        /** Sees weights or a buffer of this layer. */
        void parameter(String name, Parameter parameter);

        /** Sees a layer inside this one. */
        void layer(String name, Layer inner);
    }

    /** Computes the layer's result. */
    Tensor forward(Tensor x);

    /**
     * Shows this layer's parameters and the layers inside it, in an order that never changes. A layer that has some
     * overrides this; names must not contain a dot.
     */
    default void visit(Visitor visitor) {
    }

    /**
     * Computes the layer's result as part of a larger one: what layers that hold others call, so that
     * {@link Summary} sees each.
     */
    default Tensor apply(Tensor x) {
        return Trace.CURRENT.isBound() ? Trace.CURRENT.get().through(this, x) : forward(x);
    }

    /** Returns the weights by path, for example {@code block1.conv.weight}; one that is shared appears once. */
    default Map<String, Parameter> parameters() {
        Map<String, Parameter> weights = state();
        weights.values().removeIf(Parameter::isBuffer);
        return weights;
    }

    /** Returns weights and buffers by path: all that a checkpoint must hold. One that is shared appears once. */
    default Map<String, Parameter> state() {
        return StateWalk.of(this);
    }

    /** Returns where the parameters live; the current device if there are none. */
    default Device device() {
        Iterator<Parameter> parameters = state().values().iterator();
        return parameters.hasNext() ? parameters.next().master().device() : Device.current();
    }

    /** Returns what this layer is called in a {@link Summary}. */
    default String describe() {
        return getClass().isSynthetic() || getClass().isHidden() ? "Function" : getClass().getSimpleName();
    }

    /** Moves all parameters to a device. */
    default Layer to(Device device) {
        state().values().forEach(p -> p.to(device));
        return this;
    }

    /** Converts all parameters to a floating type. */
    default Layer to(DType dtype) {
        state().values().forEach(p -> p.to(dtype));
        return this;
    }

    /** Gives the memory of all parameters back. */
    @Override
    default void close() {
        state().values().forEach(Parameter::close);
    }
}
