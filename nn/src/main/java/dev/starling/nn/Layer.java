package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Epilogue;
import java.util.function.Predicate;

/**
 * A function of one tensor, together with the parameters that it uses. A lambda or method reference is a layer without
 * parameters: {@code Tensor::tanh}. A function of several tensors is a {@link Model}.
 *
 * <p>A layer runs in inference mode unless the thread is inside {@link Mode#training}. Its only state is its parameters
 * and buffers. Several threads may therefore call {@code forward} of one layer concurrently, provided that none of them
 * trains it.
 */
@FunctionalInterface
public interface Layer extends Module {
    /** Computes the layer's result. */
    Tensor forward(Tensor x);

    /**
     * Computes the layer's result as part of a larger layer. Layers that contain others call this instead of
     * {@link #forward}, so that {@link Summary} can observe each call and errors name the layer's path.
     */
    default Tensor apply(Tensor x) {
        try {
            return Trace.CURRENT.isBound() ? Trace.CURRENT.get().call(this, () -> forward(x)) : forward(x);
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

    @Override
    default Layer folded() {
        return Layers.folded(this);
    }

    @Override
    default Layer freeze(Predicate<String> paths) {
        Module.super.freeze(paths);
        return this;
    }

    @Override
    default Layer unfreeze(Predicate<String> paths) {
        Module.super.unfreeze(paths);
        return this;
    }

    @Override
    default Layer to(Device device) {
        Module.super.to(device);
        return this;
    }

    @Override
    default Layer to(DType dtype) {
        Module.super.to(dtype);
        return this;
    }
}
