package dev.starling.tensor.op;

import static dev.starling.tensor.op.scalar.Scalar.operand;
import static dev.starling.tensor.op.scalar.Scalar.parameter;

import dev.starling.tensor.Spec;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;

/** Changes operands in place and returns nothing: assignments, running means, optimiser steps. Not differentiable. */
public sealed interface Update extends Op {
    /**
     * Returns the new elements of the operands that the operation changes, in their order. Rates and decays are
     * parameters, so that a schedule needs no new kernel.
     *
     * @param operands their number
     */
    Formula formula(int operands);

    /** Returns the values of the parameters of {@link #formula}. */
    double[] parameters(int operands);

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
        private static final Formula SOURCE = Formula.of(operand(1));

        @Override
        public Formula formula(int operands) {
            return SOURCE;
        }

        @Override
        public double[] parameters(int operands) {
            return Formula.noParameters();
        }

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
    record Blend(double decay, double weight) implements Update {
        private static final Formula FORMULA = Formula.of(
                operand(1).fma(parameter(1), operand(0).mul(parameter(0))));

        @Override
        public Formula formula(int operands) {
            return FORMULA;
        }

        @Override
        public double[] parameters(int operands) {
            return new double[] {decay, weight};
        }
    }

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
    record RunningStatistics(double weight, double epsilon, double unbiased) implements Update {
        private static final Formula FORMULA = statistics();

        private static Formula statistics() {
            Scalar mean = operand(0);
            Scalar batchMean = operand(1);
            Scalar variance = operand(2);
            Scalar square = Scalar.of(Opcode.RECIPROCAL, operand(3).square());
            Scalar biased = Scalar.of(Opcode.MAXIMUM, square.sub(parameter(0)), Scalar.constant(0));
            Scalar batchVariance = biased.mul(parameter(1));
            Scalar sound = Scalar.of(Opcode.AND, Scalar.of(Opcode.IS_FINITE, batchVariance),
                    Scalar.of(Opcode.IS_FINITE, batchMean));
            Scalar nextMean = batchMean.fma(parameter(3), mean.mul(parameter(2)));
            Scalar nextVariance = batchVariance.fma(parameter(3), variance.mul(parameter(2)));
            return Formula.of(Scalar.of(Opcode.WHERE, sound, nextMean, mean),
                    Scalar.of(Opcode.WHERE, sound, nextVariance, variance));
        }

        @Override
        public Formula formula(int operands) {
            return FORMULA;
        }

        @Override
        public double[] parameters(int operands) {
            return new double[] {epsilon, unbiased, 1 - weight, weight};
        }
    }

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
            implements Update {
        private static final Scalar DECAYED = operand(0).fma(parameter(1), operand(1));
        private static final Formula DESCENT = Formula.of(DECAYED.fma(parameter(0), operand(0)));
        private static final Formula MOMENTUM = withVelocity(false);
        private static final Formula NESTEROV = withVelocity(true);

        private static Formula withVelocity(boolean nesterov) {
            Scalar velocity = DECAYED.fma(parameter(3), operand(2).mul(parameter(2)));
            Scalar step = nesterov ? velocity.fma(parameter(2), DECAYED) : velocity;
            return Formula.of(step.fma(parameter(0), operand(0)), velocity);
        }

        @Override
        public Formula formula(int operands) {
            return operands == 2 ? DESCENT : nesterov ? NESTEROV : MOMENTUM;
        }

        @Override
        public double[] parameters(int operands) {
            return operands == 2 ? new double[] {-rate, weightDecay}
                    : new double[] {-rate, weightDecay, momentum, 1 - dampening};
        }
    }

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
            implements Update {
        private static final Formula PLAIN = rule(false);
        private static final Formula DECOUPLED = rule(true);

        /**
         * Weight decay either shrinks the parameter or is added to the gradient. One formula for both would add 0 times
         * the parameter to the gradient, which is NaN for a parameter that is not finite. One of the bias corrections
         * is part of the rate, the other is a factor of the root.
         */
        private static Formula rule(boolean decoupled) {
            Scalar p = operand(0);
            Scalar shrunk = decoupled ? p.mul(parameter(0)) : p;
            Scalar g = decoupled ? operand(1) : p.fma(parameter(0), operand(1));
            Scalar mean = g.fma(parameter(2), operand(2).mul(parameter(1)));
            Scalar square = g.square().fma(parameter(4), operand(3).mul(parameter(3)));
            Scalar root = square.sqrt().fma(parameter(6), parameter(7));
            return Formula.of(mean.div(root).fma(parameter(5), shrunk), mean, square);
        }

        @Override
        public Formula formula(int operands) {
            return decoupled ? DECOUPLED : PLAIN;
        }

        @Override
        public double[] parameters(int operands) {
            return new double[] {decoupled ? 1 - rate * weightDecay : weightDecay, beta1, 1 - beta1, beta2, 1 - beta2,
                -rate / (1 - StrictMath.pow(beta1, step)), 1 / Math.sqrt(1 - StrictMath.pow(beta2, step)), epsilon};
        }
    }
}
