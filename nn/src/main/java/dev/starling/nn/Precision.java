package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The type in which layers compute. Weights, running statistics and the optimiser's state keep their type, usually f32.
 * In a 16-bit precision, layers use copies of the weights, made once per pass, and the gradients of weights have the
 * type of the weights. (Micikevicius et al., Mixed precision training, 2017)
 *
 * <p>With bf16 or f16, each part of the computation has the following type:
 *
 * <ul>
 * <li>in 16 bits: the model's floating input, matrix products, convolutions, attention, activations, pooling, and
 * everything that custom layers compute with {@link Parameter#value}. Sums are accumulated in f32 and rounded once;
 * <li>in f32 on 16-bit values: normalisation, with weights and statistics in f32, and the softmax and means inside it;
 * <li>in f32: the model's result and therefore loss and metrics, master weights, gradients of weights, and the update.
 * Cross-entropy reads a 16-bit result without converting it and computes in f32.
 * </ul>
 *
 * <p>A custom layer that needs the weights themselves calls {@link Parameter#master}. A custom layer that computes in
 * f32 does so inside {@code Precision.of(DType.F32).run(..)}, on {@code x.to(DType.F32)}. A {@code Precision} has no
 * visible state, and any number of threads may use it concurrently.
 */
public final class Precision {
    private static final ScopedValue<Pass> CURRENT = ScopedValue.newInstance();
    private static final Precision F32 = new Precision(DType.F32);
    private static final Precision BF16 = new Precision(DType.BF16);
    private static final Precision F16 = new Precision(DType.F16);

    private final DType type;
    /** A pass that no thread is using, kept so that a step does not allocate one. */
    private final AtomicReference<Pass> idle = new AtomicReference<>();

    private Precision(DType type) {
        this.type = type;
    }

    /**
     * Returns the precision that computes in a type.
     *
     * @param type bf16; f16, for which {@link #scalesLoss} is true; or f32, which converts nothing
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
     * Returns whether training must scale the loss because small gradients would become 0 in this type. This is so for
     * f16, whose smallest number is 2⁻²⁴. The range of bf16 is nearly that of f32.
     */
    public boolean scalesLoss() {
        return type == DType.F16;
    }

    /**
     * Runs {@code body} with layers that compute in this precision. Each weight is converted on its first use and not
     * again until {@code body} ends, so {@code body} must not change weights. The backward pass must run inside
     * {@code body} too, because it reads the copies.
     */
    public <T> T run(Supplier<T> body) {
        Pass pass = begin();
        try {
            return ScopedValue.where(CURRENT, pass).call(body::get);
        } finally {
            end(pass);
        }
    }

    /**
     * Runs {@code body}, the forward and backward pass of a training step, in this precision as {@link #run} does, and
     * in the training mode of {@link Mode#training}.
     */
    public <T> T train(Generator generator, Supplier<T> body) {
        Pass pass = begin();
        try {
            return Mode.training(generator).where(CURRENT, pass).call(body::get);
        } finally {
            end(pass);
        }
    }

    private Pass begin() {
        Pass pass = idle.getAndSet(null);
        return pass == null ? new Pass(this) : pass;
    }

    private void end(Pass pass) {
        pass.end();
        idle.set(pass);
    }

    /**
     * Computes a model's result. A floating input is converted to 16 bits and the result to f32. Inside {@link #run},
     * weights are converted once for all calls.
     */
    public Tensor forward(Layer model, Tensor x) {
        return widen(narrow(model, x));
    }

    /** Computes a model's results. Floating inputs are converted to 16 bits and results to f32. */
    public <I extends Record, O extends Record> O forward(Model<I, O> model, I input) {
        if (current() != this) {
            return run(() -> forward(model, input));
        }
        O result = model.apply(type == DType.F32 ? input : model.inputs().map(input, this::narrow));
        return type == DType.F32 ? result : model.outputs().map(result, this::widen);
    }

    /** Converts an input of a model: floating elements to 16 bits, if layers compute in these. */
    public Tensor narrow(Tensor x) {
        return type != DType.F32 && x.dtype().isFloating() ? x.to(type) : x;
    }

    /** Converts a result of a model: elements of 16 bits to f32. */
    public Tensor widen(Tensor y) {
        return y.dtype() == type ? y.to(DType.F32) : y;
    }

    /**
     * Computes a model's result as {@link #forward} does, but leaves it in the type in which the model returns it.
     * Meant for a caller that computes in f32 from a 16-bit result.
     */
    public Tensor narrow(Layer model, Tensor x) {
        if (current() != this) {
            return run(() -> narrow(model, x));
        }
        return model.apply(narrow(x));
    }

    /** Returns the precision of this thread: f32 outside of {@link #run}. */
    public static Precision current() {
        return CURRENT.isBound() ? CURRENT.get().precision : F32;
    }

    /** Returns the weights in the type in which layers on this thread compute. */
    static Tensor cast(Tensor weights) {
        return CURRENT.isBound() && weights.dtype() == DType.F32 ? CURRENT.get().cast(weights) : weights;
    }

    @Override
    public String toString() {
        return type.toString();
    }

    /** The copies of weights that a thread uses in one {@link #run}. */
    private static final class Pass {
        private final Precision precision;
        private final Map<Tensor, Tensor> copies = new IdentityHashMap<>();
        /**
         * The recorder for which the copies were made. Another recorder, as in a recomputation, must record the
         * conversion itself.
         */
        private @Nullable Recorder recorder;

        private Pass(Precision precision) {
            this.precision = precision;
        }

        private Tensor cast(Tensor weights) {
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
