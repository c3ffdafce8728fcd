package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;

/**
 * The type in which layers compute. Weights, running statistics and the optimiser's state stay as they are, usually
 * f32; in 16 bits, layers see copies of the weights, made once a pass, and gradients arrive at the weights in their own
 * type. (Micikevicius et al., Mixed precision training, 2017)
 *
 * <p>What happens in which type, if that is bf16 or f16:
 *
 * <ul>
 * <li>in 16 bits: the model's floating input, matrix products, convolutions, attention, activations, pooling, and all
 * that custom layers do with {@link Parameter#value}. Sums add up in f32 and are rounded once;
 * <li>in f32 on values of 16 bits: normalisation, with weights and statistics in f32; softmax and means inside;
 * <li>in f32: the model's result, and so loss and metrics; cross-entropy reads a result of 16 bits as it is, and
 * computes in f32; master weights, gradients of weights, and the update.
 * </ul>
 *
 * <p>A custom layer that wants the weights themselves asks for {@link Parameter#master}, one that computes in f32 does
 * so inside {@code Precision.of(DType.F32).run(..)}, on {@code x.to(DType.F32)}. An object has no state that shows:
 * any number of threads may use it at once.
 */
public final class Precision {
    private static final ScopedValue<Pass> CURRENT = ScopedValue.newInstance();
    private static final Precision F32 = new Precision(DType.F32);
    private static final Precision BF16 = new Precision(DType.BF16);
    private static final Precision F16 = new Precision(DType.F16);

    private final DType type;
    /** A pass that nobody is in, kept so that a step makes none. */
    private final AtomicReference<Pass> idle = new AtomicReference<>();

    private Precision(DType type) {
        this.type = type;
    }

    /**
     * Returns the precision that computes in a type.
     *
     * @param type bf16; f16, which {@link #scalesLoss}; or f32: as the weights are, nothing is converted
     */
    public static Precision of(DType type) {
        return switch (type) {
            case F32 -> F32;
            case BF16 -> BF16;
            case F16 -> F16;
            case F64, I64, I32, I8, U8, BOOL -> throw TensorException.argument("precision",
                    "layers compute in f32, bf16 or f16, got " + type, "convert the model with Layer.to(DType)");
        };
    }

    /** Returns the type in which layers compute. */
    public DType type() {
        return type;
    }

    /**
     * Tells whether training needs the loss multiplied, because small gradients would be 0 in this type: in f16, whose
     * least number is 2⁻²⁴. That of bf16 is f32's, nearly.
     */
    public boolean scalesLoss() {
        return type == DType.F16;
    }

    /**
     * Runs {@code body} with layers computing so. Weights are converted when first used and not again until
     * {@code body} ends, so it must not change them. To be called around the backward pass, too: it reads the copies.
     */
    public <T> T run(Supplier<T> body) {
        Pass pass = idle.getAndSet(null);
        Pass mine = pass == null ? new Pass(this) : pass;
        try {
            return ScopedValue.where(CURRENT, mine).call(body::get);
        } finally {
            mine.end();
            idle.set(mine);
        }
    }

    /**
     * Computes a model's result: its input, if floating, is converted to 16 bits, its result to f32. Inside
     * {@link #run}, weights are converted once for all calls.
     */
    public Tensor forward(Layer model, Tensor x) {
        Tensor y = narrow(model, x);
        return y.dtype() == type ? y.to(DType.F32) : y;
    }

    /**
     * As {@link #forward}, for a caller that itself computes in f32 with the result, which stays as the model gives
     * it.
     */
    public Tensor narrow(Layer model, Tensor x) {
        if (current() != this) {
            return run(() -> narrow(model, x));
        }
        return model.forward(type != DType.F32 && x.dtype().isFloating() ? x.to(type) : x);
    }

    /** Returns the precision in force on this thread: f32 outside of {@link #run}. */
    public static Precision current() {
        return CURRENT.isBound() ? CURRENT.get().precision : F32;
    }

    /** Returns what layers of this thread see of weights. */
    static Tensor seen(Tensor weights) {
        return CURRENT.isBound() && weights.dtype() == DType.F32 ? CURRENT.get().seen(weights) : weights;
    }

    @Override
    public String toString() {
        return type.toString();
    }

    /** The copies of weights that a thread uses in one {@link #run}. */
    private static final class Pass {
        private final Precision precision;
        private final Map<Tensor, Tensor> copies = new IdentityHashMap<>();
        /** Who records what is done with the copies; somebody else, as in a recomputation, must see them being made. */
        private Recorder recorder;

        private Pass(Precision precision) {
            this.precision = precision;
        }

        private Tensor seen(Tensor weights) {
            DType type = precision.type;
            if (type == DType.F32) {
                return weights;
            }
            Recorder current = Recorder.current();
            if (recorder == null) {
                recorder = current;
            }
            if (recorder != current) {
                return weights.to(type);
            }
            Tensor copy = copies.get(weights);
            if (copy == null) {
                copy = Scope.detached(() -> weights.to(type));
                copies.put(weights, copy);
            }
            return copy;
        }

        private void end() {
            copies.values().forEach(Tensor::close);
            copies.clear();
            recorder = null;
        }
    }
}
