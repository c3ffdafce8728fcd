package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Epilogue;
import java.util.Iterator;
import java.util.Map;
import java.util.function.Predicate;

/**
 * A function of one tensor, together with the parameters that it uses. A lambda or method reference is a layer without
 * parameters: {@code Tensor::tanh}.
 *
 * <p>A layer runs in inference mode unless the thread is inside {@link Mode#training}. Its only state is its parameters
 * and buffers. Several threads may therefore call {@code forward} of one layer concurrently, provided that none of them
 * trains it.
 */
@FunctionalInterface
public interface Layer extends AutoCloseable {
    /** Receives the contents of a layer from {@link Layer#visit}. */
    interface Visitor {
        /** Receives a weight or a buffer of the layer. */
        void parameter(String name, Parameter parameter);

        /** Receives a layer contained in the layer. */
        void layer(String name, Layer inner);
    }

    /** Computes the layer's result. */
    Tensor forward(Tensor x);

    /**
     * Passes this layer's parameters and the layers that it contains to {@code visitor}, in an order that never
     * changes. A layer that has parameters or contains layers overrides this method. Names must not contain a dot.
     */
    default void visit(Visitor visitor) {
    }

    /**
     * Computes the layer's result as part of a larger layer. Layers that contain others call this instead of
     * {@link #forward}, so that {@link Summary} can observe each call and errors name the layer's path.
     */
    default Tensor apply(Tensor x) {
        try {
            return Trace.CURRENT.isBound() ? Trace.CURRENT.get().call(this, x) : forward(x);
        } catch (TensorException e) {
            throw LayerPath.within(this, e);
        }
    }

    /**
     * Returns the epilogue that computes the same as this layer, or {@link Epilogue#NONE} if there is none. A
     * {@link Fusible} layer directly before this one computes it in the same pass.
     */
    default Epilogue epilogue() {
        return Epilogue.NONE;
    }

    /**
     * Returns a layer for inference that computes what this one does, within rounding, in fewer operations: weights of
     * {@link Foldable} layers are folded into copies of the weights of the layers before them. Other parameters are
     * shared with this layer, which does not change. Close both, this one last. A layer that contains others overrides
     * this method; by default it returns this layer.
     */
    default Layer folded() {
        return this;
    }

    /** Returns the weights by path, for example {@code block1.conv.weight}. A shared weight appears once. */
    default Map<String, Parameter> parameters() {
        Map<String, Parameter> weights = state();
        weights.values().removeIf(Parameter::isBuffer);
        return weights;
    }

    /** Returns weights and buffers by path, that is everything a checkpoint must hold. A shared one appears once. */
    default Map<String, Parameter> state() {
        return StateWalk.of(this);
    }

    /** Returns the device of the parameters, or the current device if there are none. */
    default Device device() {
        Iterator<Parameter> parameters = state().values().iterator();
        return parameters.hasNext() ? parameters.next().master().device() : Device.current();
    }

    /** Returns the name of this layer in a {@link Summary}. */
    default String describe() {
        return getClass().isSynthetic() || getClass().isHidden() ? "Function" : getClass().getSimpleName();
    }

    /**
     * Returns the settings of this layer as {@link #tree} shows them, for example {@code 784, 128}; of a record its
     * components, otherwise by default none.
     */
    default String settings() {
        if (!(this instanceof Record)) {
            return "";
        }
        String text = toString();
        int start = text.indexOf('[');
        return start < 0 || !text.endsWith("]") ? "" : text.substring(start + 1, text.length() - 1);
    }

    /** Returns this layer and, indented below it, the layers that it contains, each with its name and settings. */
    default String tree() {
        return LayerTree.of(this);
    }

    /**
     * Freezes the weights with paths that {@code paths} selects, for example those that start with {@code trunk.}; see
     * {@link Parameter#freeze}.
     */
    default Layer freeze(Predicate<String> paths) {
        parameters().forEach((path, p) -> {
            if (paths.test(path)) {
                p.freeze();
            }
        });
        return this;
    }

    /** Unfreezes the weights with paths that {@code paths} selects. */
    default Layer unfreeze(Predicate<String> paths) {
        parameters().forEach((path, p) -> {
            if (paths.test(path)) {
                p.unfreeze();
            }
        });
        return this;
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

    /** Frees the memory of all parameters. */
    @Override
    default void close() {
        state().values().forEach(Parameter::close);
    }
}
