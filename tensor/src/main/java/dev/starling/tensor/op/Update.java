package dev.starling.tensor.op;

import dev.starling.tensor.Spec;

/** Changes operands in place and returns nothing: assignments, running means, optimiser steps. Not differentiable. */
public sealed interface Update extends Op {
    /** Returns whether the operation changes operand {@code i}; the first one is always changed. */
    default boolean changes(int i) {
        return switch (this) {
            case Assign _, Blend _ -> i == 0;
            case RunningStatistics _ -> i % 2 == 0;
            case Sgd _, Adam _ -> i != 1;
        };
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    @Override
    default Spec[] infer(Spec... in) {
        int min = this instanceof Adam || this instanceof RunningStatistics ? 4 : 2;
        Check.operands(this, in, min, this instanceof Sgd ? 3 : min);
        Check.argument(!(this instanceof Sgd s) || in.length == 3 || s.momentum() == 0, this,
                "momentum needs a velocity", "pass a velocity, or a momentum of 0", in);
        Check.argument(!(this instanceof Adam a) || a.step() >= 1, this, "step must be >= 1", "count steps from 1",
                in);
        Check.argument(hasFiniteCoefficients(), this, () -> "all coefficients must be finite, got " + this,
                "check the schedule of the learning rate", in);
        Check.floating(this, in);
        Check.sameType(this, in);
        for (Spec s : in) {
            Check.shape(s.shape().equals(in[0].shape()), this, "operands must have the same shape",
                    "reshape or expand", in);
        }
        return new Spec[0];
    }

    /** Returns whether no coefficient is infinite or NaN; one that is would spoil all elements. */
    private boolean hasFiniteCoefficients() {
        return switch (this) {
            case Assign _ -> true;
            case Blend o -> Double.isFinite(o.decay + o.weight);
            case RunningStatistics o -> Double.isFinite(o.weight + o.epsilon + o.unbiased);
            case Sgd o -> Double.isFinite(o.rate + o.momentum + o.dampening + o.weightDecay);
            case Adam o -> Double.isFinite(o.rate + o.beta1 + o.beta2 + o.epsilon + o.weightDecay);
        };
    }

    /** Operands {@code (target, source)}: copies, converting and broadcasting the source. */
    record Assign() implements Update {
        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.shape(in[0].shape().equals(Check.broadcast(this, in[0], in[1])), this,
                    "the source must broadcast to the target", "reshape the source", in);
            return new Spec[0];
        }
    }

    /**
     * Operands {@code (target, source)}: {@code target = decay·target + weight·source}: running means (decay 0.9,
     * weight 0.1), accumulation (1, 1).
     *
     * @param decay factor of the old value
     * @param weight factor of the new value
     */
    record Blend(double decay, double weight) implements Update { }

    /**
     * Operands {@code (mean, batchMean, variance, inverseDeviation)} of the same shape; changes the first and the
     * third: {@code mean = (1 - weight)·mean + weight·batchMean; variance = (1 - weight)·variance + weight·v}, where
     * {@code v = unbiased·max(1/inverseDeviation² - epsilon, 0)}. An element whose {@code v} or {@code batchMean} is
     * not finite stays unchanged: otherwise one bad batch would spoil the statistics permanently. (Ioffe and Szegedy,
     * 2015)
     *
     * @param weight of the batch's statistics; PyTorch's momentum
     * @param epsilon as of {@link Normalization.BatchNorm}
     * @param unbiased n/(n - 1), for n values per channel
     */
    record RunningStatistics(double weight, double epsilon, double unbiased) implements Update { }

    /**
     * Operands {@code (parameter, gradient)} or, with momentum, {@code (parameter, gradient, velocity)}:
     * {@code g += weightDecay·p; v = momentum·v + (1 - dampening)·g; p -= rate·(nesterov ? g + momentum·v : v)}.
     * Velocity starts at 0. (Sutskever et al., 2013)
     *
     * @param rate learning rate
     * @param momentum 0 for none
     * @param dampening of the gradient in the velocity
     * @param weightDecay L2 penalty
     * @param nesterov whether to use Nesterov momentum
     */
    record Sgd(double rate, double momentum, double dampening, double weightDecay, boolean nesterov)
            implements Update { }

    /**
     * Operands {@code (parameter, gradient, mean, square)}: {@code m = β₁m + (1-β₁)g; v = β₂v + (1-β₂)g²;
     * p -= rate·(m/(1-β₁ᵗ))/(√(v/(1-β₂ᵗ)) + ε)}. Weight decay is added to the gradient or, decoupled, shrinks the
     * parameter by {@code rate·weightDecay} first. (Kingma and Ba, 2014; Loshchilov and Hutter, 2017)
     *
     * @param rate learning rate
     * @param beta1 decay of the mean
     * @param beta2 decay of the square
     * @param epsilon avoids division by 0
     * @param weightDecay strength of the decay
     * @param decoupled whether the decay is decoupled, as in AdamW
     * @param step t, counted from 1
     */
    record Adam(double rate, double beta1, double beta2, double epsilon, double weightDecay, boolean decoupled,
            long step)
            implements Update { }
}
