package dev.starling.tensor.op;

import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Normalised exponentials along a dimension, whose maximum is subtracted first. */
public sealed interface Softmax extends Op {
    /** Returns the dimension, counted from the front. */
    int axis();

    @Override
    default String name() {
        return switch (this) {
            case Exponentials _ -> "softmax";
            case Logarithms _ -> "logSoftmax";
            case ExponentialsGradient _ -> "softmaxGradient";
            case LogarithmsGradient _ -> "logSoftmaxGradient";
        };
    }

    @Override
    default Spec[] infer(Spec... in) {
        int count = this instanceof GradientKernel ? 2 : 1;
        Elementwise.floating(this, count, in);
        Check.axis(this, axis(), in[0], in);
        Check.counted(this, "a row", in[0].shape().dim(axis()), in);
        Check.shape(in[count - 1].shape().equals(in[0].shape()), this, "y and g must have the same shape",
                "pass the result and its gradient", in);
        return new Spec[] {in[0]};
    }

    /**
     * eˣ/Σeˣ.
     *
     * @param axis the dimension, counted from the front
     */
    record Exponentials(int axis) implements Softmax {
        @Override
        public Tensor[] vjp(Backward b) {
            Tensor y = b.out(0);
            if (!b.recorded()) {
                return Tensor.apply(new ExponentialsGradient(axis), y, b.grad());
            }
            Tensor gy = b.grad().mul(y);
            return new Tensor[] {gy.sub(y.mul(gy.sum(true, axis)))};
        }
    }

    /**
     * x - ln Σeˣ.
     *
     * @param axis the dimension, counted from the front
     */
    record Logarithms(int axis) implements Softmax {
        @Override
        public Tensor[] vjp(Backward b) {
            Tensor y = b.out(0);
            if (!b.recorded()) {
                return Tensor.apply(new LogarithmsGradient(axis), y, b.grad());
            }
            return new Tensor[] {b.grad().sub(y.exp().mul(b.grad().sum(true, axis)))};
        }
    }

    /**
     * Operands {@code (y, g)}: y·(g - Σ g·y).
     *
     * @param axis the dimension, counted from the front
     */
    record ExponentialsGradient(int axis) implements Softmax, GradientKernel { }

    /**
     * Operands {@code (y, g)}: g - eʸ·Σg.
     *
     * @param axis the dimension, counted from the front
     */
    record LogarithmsGradient(int axis) implements Softmax, GradientKernel { }
}
