package dev.starling.nn;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.Creation;
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
 * Numbers that a layer holds on to: weights, which training changes, or a buffer such as a running mean, which the
 * layer changes itself. The tensor belongs to no scope; it lives until {@link #close}. It stays the same object while
 * its elements change in place; only {@link #to} puts another in its place. Its shape never changes.
 */
public final class Parameter implements AutoCloseable {
    private final boolean buffer;
    /** Brings new elements into the memory layout of this parameter; it returns its argument or a copy. */
    private final UnaryOperator<Tensor> layout;
    private Tensor value;
    private boolean frozen;

    private Parameter(Tensor value, boolean buffer, UnaryOperator<Tensor> layout) {
        this.value = value;
        this.buffer = buffer;
        this.layout = layout;
    }

    private Parameter(Tensor value, boolean buffer) {
        this(value, buffer, UnaryOperator.identity());
    }

    /** Makes weights that start as a copy of {@code initial}. */
    public static Parameter of(Tensor initial) {
        return new Parameter(outliving(initial::copy), false);
    }

    /** Makes f32 weights of a shape on the current device. */
    public static Parameter of(Initializer initializer, Generator generator, long... shape) {
        return new Parameter(outliving(() -> initializer.draw(Shape.of(shape), generator)), false);
    }

    /**
     * Makes f32 weights of a convolution on the current device. They always lie in memory as {@link
     * Convolutions#arranged} says of the device they are on.
     */
    public static Parameter ofConvolution(Initializer initializer, Generator generator, long... shape) {
        return new Parameter(outliving(() -> Convolutions.arranged(initializer.draw(Shape.of(shape), generator))),
                false, Convolutions::arranged);
    }

    /** Makes a buffer of zeros of the shape, type, device and memory layout of {@code other}'s {@link #master}. */
    public static Parameter zerosLike(Parameter other) {
        return new Parameter(outliving(() -> other.layout.apply(Creation.full(other.value.spec(), 0))), true,
                other.layout);
    }

    /** Makes a buffer that starts as a copy of {@code initial}: saved with the model, never trained. */
    public static Parameter buffer(Tensor initial) {
        return new Parameter(outliving(initial::copy), true);
    }

    /** Makes f32 weights of one value on the current device. */
    public static Parameter filled(double element, long... shape) {
        return of((s, g) -> Tensor.full(DType.F32, element, s.dims()), null, shape);
    }

    /** Runs {@code body} in a scope of its own, unrecorded, and frees all but its result, which nobody owns. */
    private static Tensor outliving(Supplier<Tensor> body) {
        try (Scope scope = Scope.open("parameter")) {
            return Scope.release(Recorder.with(Recorder.NONE, body));
        }
    }

    /**
     * Returns the tensor that layers compute with: {@link #master}, or inside {@link Precision#run} a copy of weights
     * in another type. Read it, record with it, but do not close it.
     */
    public Tensor value() {
        return buffer ? value : Precision.seen(value);
    }

    /** Returns the tensor that training changes, whatever the {@link Precision}. Do not close it. */
    public Tensor master() {
        return value;
    }

    /** Returns the sizes. */
    public Shape shape() {
        return value.shape();
    }

    /** Tells whether this is state that training does not touch. */
    public boolean isBuffer() {
        return buffer;
    }

    /** Tells whether gradients are wanted: for weights, unless frozen. */
    public boolean requiresGradient() {
        return !buffer && !frozen;
    }

    /**
     * Keeps training from changing this parameter, from the next step on until {@link #unfreeze}: no gradient is
     * computed for it, and neither weight decay nor momentum moves it. What an optimiser has learned about it stays for
     * the time after. Trainers of several processes freeze it in all of them. May be called before or after an
     * optimiser or a step was made of it; what was captured is captured anew.
     */
    public Parameter freeze() {
        frozen = true;
        return this;
    }

    /** Lets training change this parameter again, from the next step on. */
    public Parameter unfreeze() {
        frozen = false;
        return this;
    }

    /**
     * Copies elements in, converting the type if need be.
     *
     * @param source of this shape, on any device
     * @throws TensorException if the shapes differ
     */
    public void set(Tensor source) {
        if (!source.shape().equals(value.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "set", List.of(value.spec(), source.spec()),
                    "the source must have the parameter's shape", "reshape the source");
        }
        try (Scope scope = Scope.open("set")) {
            Tensor.apply(new Update.Assign(), value, source.to(value.device()));
        }
    }

    /**
     * Moves the elements to another device; tensors got from {@link #value} before are closed. Training goes on with
     * the new ones from its next step on, and optimisers bring what they keep of the parameter there, too.
     */
    public void to(Device device) {
        if (device != value.device()) {
            replace(() -> layout.apply(value.to(device)));
        }
    }

    /**
     * Converts the elements to another floating type; tensors got from {@link #value} before are closed. Training goes
     * on with the new ones from its next step on, and optimisers convert what they keep of the parameter, too.
     *
     * @throws TensorException if the parameter is floating and {@code dtype} is not
     */
    public void to(DType dtype) {
        if (value.dtype().isFloating() && !dtype.isFloating()) {
            throw new TensorException(TensorException.Problem.DTYPE, "parameter", List.of(value.spec()),
                    "floating elements cannot become " + dtype, "use a floating type");
        }
        if (dtype != value.dtype()) {
            replace(() -> layout.apply(value.to(dtype)));
        }
    }

    private void replace(Supplier<Tensor> other) {
        Tensor old = value;
        value = outliving(other);
        old.close();
    }

    /** Gives the memory back. */
    @Override
    public void close() {
        value.close();
    }

    @Override
    public String toString() {
        return (buffer ? "buffer " : frozen ? "frozen parameter " : "parameter ") + value.spec();
    }
}
