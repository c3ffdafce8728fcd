package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.ToDoubleFunction;

/**
 * Draws the initial values of weights. For weights {@code [out, in, *kernel]}, fan-in is {@code in·∏kernel} and fan-out
 * is {@code out·∏kernel}.
 */
@FunctionalInterface
public interface Initializer {
    /** The pass in which a layer preserves variance. */
    enum Fan {
        /** The forward pass. */
        IN,
        /** The backward pass. */
        OUT;

        private double of(Shape shape) {
            if (shape.rank() < 2) {
                throw new TensorException(TensorException.Problem.SHAPE, "initialise", List.of(f32(shape)),
                        "fan-in and fan-out need weights [out, in, *kernel]", "use uniform, normal or constant");
            }
            long own = shape.dim(this == IN ? 1 : 0);
            return Math.max(1, own * shape.slice(2, shape.rank()).count());
        }
    }

    /** Returns f32 values of {@code shape} on the current device, drawn from {@code generator}. */
    Tensor draw(Shape shape, Generator generator);

    private static Spec f32(Shape shape) {
        return new Spec(DType.F32, shape, Device.current());
    }

    /** Fills the weights with one value. */
    static Initializer constant(double value) {
        Drawing.requireFinite("value", value);
        return (shape, generator) -> Tensor.full(DType.F32, value, shape.dims());
    }

    /** Draws from the uniform distribution over [low, high). */
    static Initializer uniform(double low, double high) {
        return (shape, generator) -> generator.uniform(f32(shape), low, high);
    }

    /** Draws from a normal distribution. */
    static Initializer normal(double mean, double deviation) {
        return (shape, generator) -> generator.normal(f32(shape), mean, deviation);
    }

    /**
     * Draws from a normal distribution between {@code low} and {@code high}: numbers outside are drawn again.
     *
     * @throws TensorException if nearly all numbers are outside
     */
    static Initializer truncatedNormal(double mean, double deviation, double low, double high) {
        return (shape, generator) -> Drawing.truncatedNormal(f32(shape), generator, mean, deviation, low, high);
    }

    /**
     * Draws a matrix {@code [out, in·∏kernel]} whose rows, or columns if they are fewer, are orthogonal and of length
     * {@code gain}. The host computes it in double precision. (Saxe, McClelland and Ganguli, 2013)
     */
    static Initializer orthogonal(double gain) {
        Drawing.requireFinite("gain", gain);
        return (shape, generator) -> Drawing.orthogonal(f32(shape), generator, gain);
    }

    /** Draws uniformly from ±√(6/fan), for layers that a rectifier follows. (He et al., 2015) */
    static Initializer kaimingUniform(Fan fan) {
        return symmetric(shape -> Math.sqrt(6 / fan.of(shape)));
    }

    /**
     * Draws from the normal distribution with deviation √(2/fan), for layers that a rectifier follows. (He et al.,
     * 2015)
     */
    static Initializer kaimingNormal(Fan fan) {
        return (shape, generator) -> generator.normal(f32(shape), 0, Math.sqrt(2 / fan.of(shape)));
    }

    /** Draws uniformly from ±√(6/(fan-in + fan-out)). (Glorot and Bengio, 2010) */
    static Initializer xavierUniform() {
        return symmetric(shape -> Math.sqrt(6 / (Fan.IN.of(shape) + Fan.OUT.of(shape))));
    }

    /** Draws from the normal distribution with deviation √(2/(fan-in + fan-out)). (Glorot and Bengio, 2010) */
    static Initializer xavierNormal() {
        return (shape, generator) -> generator.normal(f32(shape), 0,
                Math.sqrt(2 / (Fan.IN.of(shape) + Fan.OUT.of(shape))));
    }

    /** Draws uniformly from ±1/√fan-in, the default of PyTorch's dense and convolution layers. */
    static Initializer fanInUniform() {
        return symmetric(shape -> 1 / Math.sqrt(Fan.IN.of(shape)));
    }

    private static Initializer symmetric(ToDoubleFunction<Shape> bound) {
        return (shape, generator) -> {
            double b = bound.applyAsDouble(shape);
            return generator.uniform(f32(shape), -b, b);
        };
    }
}
