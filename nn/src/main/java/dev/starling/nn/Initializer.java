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
 * Draws the first values of weights. Fans are counted for weights {@code [out, in, *kernel]}: fan-in is
 * {@code in·∏kernel}, fan-out {@code out·∏kernel}.
 */
@FunctionalInterface
public interface Initializer {
    /** Which side of a layer keeps its variance. */
    enum Fan {
        /** The forward pass. */
        IN,
        /** The backward pass. */
        OUT;

        private double of(Shape shape) {
            if (shape.rank() < 2) {
                throw new TensorException(TensorException.Problem.SHAPE, "initialise", List.of(f32(shape)),
                        "a fan is told for weights [out, in, *kernel] only", "use uniform, normal or constant");
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

    /** One value everywhere. */
    static Initializer constant(double value) {
        return (shape, generator) -> Tensor.full(DType.F32, value, shape.dims());
    }

    /** Even over [low, high). */
    static Initializer uniform(double low, double high) {
        return (shape, generator) -> generator.uniform(f32(shape), low, high);
    }

    /** Normal. */
    static Initializer normal(double mean, double deviation) {
        return (shape, generator) -> generator.normal(f32(shape), mean, deviation);
    }

    /** Even within ±√(6/fan), for layers before a rectifier. (He et al., 2015) */
    static Initializer kaimingUniform(Fan fan) {
        return symmetric(shape -> Math.sqrt(6 / fan.of(shape)));
    }

    /** Normal with deviation √(2/fan), for layers before a rectifier. (He et al., 2015) */
    static Initializer kaimingNormal(Fan fan) {
        return (shape, generator) -> generator.normal(f32(shape), 0, Math.sqrt(2 / fan.of(shape)));
    }

    /** Even within ±√(6/(fan-in + fan-out)). (Glorot and Bengio, 2010) */
    static Initializer xavierUniform() {
        return symmetric(shape -> Math.sqrt(6 / (Fan.IN.of(shape) + Fan.OUT.of(shape))));
    }

    /** Normal with deviation √(2/(fan-in + fan-out)). (Glorot and Bengio, 2010) */
    static Initializer xavierNormal() {
        return (shape, generator) -> generator.normal(f32(shape), 0,
                Math.sqrt(2 / (Fan.IN.of(shape) + Fan.OUT.of(shape))));
    }

    /** Even within ±1/√fan-in: what PyTorch's dense and convolution layers start with. */
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
