package dev.starling.nn;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.function.Supplier;
import java.util.function.UnaryOperator;

/**
 * Values that a layer keeps: weights, which training changes, or a buffer such as a running mean, which the layer
 * itself updates. The tensor belongs to no scope and lives until {@link #close}. Updates change its elements in place;
 * only {@link #to} replaces the tensor. The shape never changes, except that of a {@link #resizable} buffer.
 */
public final class Parameter implements AutoCloseable {
    private final boolean buffer;
    private final boolean resizable;
    /** Arranges new elements in the memory layout of this parameter. Returns its argument or a copy. */
    private final UnaryOperator<Tensor> layout;
    private Tensor value;
    private boolean frozen;

    private Parameter(Tensor value, boolean buffer, boolean resizable, UnaryOperator<Tensor> layout) {
        this.value = value;
        this.buffer = buffer;
        this.resizable = resizable;
        this.layout = layout;
    }

    private Parameter(Tensor value, boolean buffer) {
        this(value, buffer, false, UnaryOperator.identity());
    }

    /** Creates weights that are initialised with a copy of {@code initial}. */
    public static Parameter of(Tensor initial) {
        return new Parameter(detached(initial::copy), false);
    }

    /** Creates f32 weights of a shape on the current device. */
    public static Parameter of(Initializer initializer, Generator generator, long... shape) {
        return new Parameter(detached(() -> initializer.draw(Shape.of(shape), generator)), false);
    }

    /**
     * Creates f32 weights of a convolution on the current device. Their memory layout is always that of
     * {@link Convolutions#arranged} for the device they are on.
     */
    public static Parameter ofConvolution(Initializer initializer, Generator generator, long... shape) {
        return new Parameter(detached(() -> Convolutions.arranged(initializer.draw(Shape.of(shape), generator))),
                false, false, Convolutions::arranged);
    }

    /** Creates a buffer of equal elements with shape, type, device and layout of {@code other}'s {@link #master}. */
    public static Parameter filledLike(Parameter other, double value) {
        return new Parameter(detached(() -> other.layout.apply(Tensor.full(other.value.spec(), value))), true,
                false, other.layout);
    }

    /** Creates a buffer of zeros of a shape, with type and device of {@code other}'s {@link #master}. */
    public static Parameter zeros(Parameter other, Shape shape) {
        return new Parameter(detached(() -> Tensor.full(other.value.spec().with(shape), 0)), true);
    }

    /**
     * Creates a buffer that is initialised with a copy of {@code initial}. It is saved with the model and never
     * trained.
     */
    public static Parameter buffer(Tensor initial) {
        return new Parameter(detached(initial::copy), true);
    }

    /**
     * Creates a buffer as {@link #buffer} does, whose first dimension becomes that of what is set: a vocabulary, for
     * example, whose size is only known when it has been adapted to data or read from a file. In distributed training
     * it must have the same size on every rank before the run starts.
     */
    public static Parameter resizable(Tensor initial) {
        return new Parameter(detached(initial::copy), true, true, UnaryOperator.identity());
    }

    /** Creates f32 weights on the current device that all have the value {@code element}. */
    public static Parameter filled(double element, long... shape) {
        return new Parameter(detached(() -> Tensor.full(DType.F32, element, shape)), false);
    }

    /**
     * Runs {@code body} in a scope of its own without recording. Frees everything but its result, which no scope owns.
     */
    private static Tensor detached(Supplier<Tensor> body) {
        try (Scope scope = Scope.open("parameter")) {
            return Scope.release(Recorder.with(Recorder.NONE, body));
        }
    }

    /**
     * Returns the tensor that layers compute with: {@link #master}, or inside {@link Precision#run} a copy of the
     * weights in another type. The caller may read it and record operations on it, but must not close it.
     */
    public Tensor value() {
        return buffer ? value : Precision.cast(master());
    }

    /** Returns the tensor that training changes, independent of the {@link Precision}. The caller must not close it. */
    public Tensor master() {
        if (!buffer) {
            Mode.requireRecording();
        }
        return value;
    }

    /** Returns the shape. */
    public Shape shape() {
        return value.shape();
    }

    /** Returns whether this is a buffer, which no optimiser updates. */
    public boolean isBuffer() {
        return buffer;
    }

    /** Returns whether training computes a gradient: true for weights that are not frozen. */
    public boolean requiresGradient() {
        return !buffer && !frozen;
    }

    /**
     * Excludes this parameter from training, from the next step until {@link #unfreeze}. No gradient is computed for
     * it, and neither weight decay nor momentum changes it. The optimiser keeps its state of the parameter. In
     * distributed training every process must freeze it. This may be called before or after an optimiser or a step is
     * created with it; captured steps are captured again.
     */
    public Parameter freeze() {
        frozen = true;
        return this;
    }

    /** Includes this parameter in training again, from the next step on. */
    public Parameter unfreeze() {
        frozen = false;
        return this;
    }

    /**
     * Returns whether {@link #set} accepts elements of a shape: that of this parameter, or of a {@link #resizable}
     * buffer also one with another first dimension.
     */
    public boolean accepts(Shape shape) {
        return shape.equals(value.shape())
                || resizable && shape.rank() == value.rank() && shape.without(0).equals(value.shape().without(0));
    }

    /**
     * Copies the elements of {@code source} into this parameter and converts their type if necessary.
     *
     * @param source has the shape of this parameter; may be on any device
     * @throws TensorException if the shapes differ
     */
    public void set(Tensor source) {
        if (!accepts(source.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "set", List.of(value.spec(), source.spec()),
                    "the source must have the parameter's shape", "reshape the source");
        }
        if (!source.shape().equals(value.shape())) {
            replace(() -> source.to(value.device()).to(value.dtype()).copy());
            return;
        }
        try (Scope scope = Scope.open("set")) {
            Tensor.apply(new Update.Assign(), value, source.to(value.device()));
        }
    }

    /**
     * Moves the elements to another device and closes the tensor that {@link #value} returned before. Training
     * continues with the new tensor from its next step on, and optimisers move their state of the parameter to that
     * device.
     */
    public void to(Device device) {
        if (device != value.device()) {
            replace(() -> layout.apply(value.to(device)));
        }
    }

    /**
     * Converts floating elements to another floating type and closes the tensor that {@link #value} returned before.
     * Training continues with the new tensor from its next step on, and optimisers convert their state of the
     * parameter. Elements of another type, such as those of a vocabulary, stay as they are.
     *
     * @throws TensorException if the parameter is floating and {@code dtype} is not
     */
    public void to(DType dtype) {
        if (value.dtype().isFloating() && !dtype.isFloating()) {
            throw new TensorException(TensorException.Problem.DTYPE, "parameter", List.of(value.spec()),
                    "floating elements cannot become " + dtype, "use a floating type");
        }
        if (dtype != value.dtype() && value.dtype().isFloating()) {
            replace(() -> layout.apply(value.to(dtype)));
        }
    }

    private void replace(Supplier<Tensor> other) {
        Tensor old = value;
        value = detached(other);
        old.close();
    }

    /** Frees the memory. */
    @Override
    public void close() {
        value.close();
    }

    @Override
    public String toString() {
        return (buffer ? "buffer " : frozen ? "frozen parameter " : "parameter ") + value.spec();
    }
}
