package dev.starling.tensor.op;

import static dev.starling.tensor.op.scalar.Scalar.operand;
import static dev.starling.tensor.op.scalar.Scalar.parameter;

import dev.starling.tensor.Spec;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.op.scalar.Opcode;
import dev.starling.tensor.op.scalar.Scalar;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;

/**
 * Changes operands in place and returns nothing: assignments, running means, optimiser steps. Not differentiable. A
 * tensor whose elements share memory, as those of an expanded one do, cannot be changed.
 */
public sealed interface Update extends Op {
    /** What {@link #infer} returns. */
    Spec[] NO_OUTPUTS = {};

    /**
     * Returns the new elements of the operands that the operation changes, in their order. Rates and decays are
     * parameters, so that a schedule needs no new kernel.
     */
    Formula formula();

    /** Returns the values of the parameters of {@link #formula}. */
    double[] parameters();

    /** Returns whether the operation changes operand {@code i}; the first one is always changed. */
    default boolean changes(int i) {
        return switch (this) {
            case Assign _, Blend _ -> i == 0;
            case RunningStatistics _ -> i % 2 == 0;
            case Step _ -> i != 1;
        };
    }

    @Override
    default boolean differentiable() {
        return false;
    }

    @Override
    default Spec[] infer(Spec... in) {
        List<String> state = this instanceof Step s ? s.rule.slots() : List.of();
        int count = this instanceof RunningStatistics ? 4 : 2 + state.size();
        if (in.length != count && !state.isEmpty()) {
            throw Check.argument(this, "the rule's state is " + state + ", got " + Math.max(0, in.length - 2)
                    + " tensors", "pass parameter, gradient and each of the state", in);
        }
        Check.operands(this, in, count, count);
        Check.argument(!(this instanceof Step s) || s.step >= 1, this, "step must be >= 1", "count steps from 1", in);
        if (!hasFiniteCoefficients()) {
            throw Check.argument(this, "all coefficients must be finite, got " + this,
                    "check the schedule of the learning rate", in);
        }
        Check.floating(this, in);
        Check.sameType(this, in);
        for (Spec s : in) {
            Check.shape(s.shape().equals(in[0].shape()), this, "operands must have the same shape",
                    "reshape or expand", in);
        }
        return NO_OUTPUTS;
    }

    /** Returns whether no coefficient is infinite or NaN; one that is would spoil all elements. */
    private boolean hasFiniteCoefficients() {
        return switch (this) {
            case Assign _ -> true;
            case Blend o -> Double.isFinite(o.decay + o.weight);
            case RunningStatistics o -> Double.isFinite(o.weight + o.epsilon + o.unbiased);
            case Step o -> Double.isFinite(o.rate);
        };
    }

    /** Operands {@code (target, source)}: copies, converting and broadcasting the source. */
    record Assign() implements Update {
        private static final Formula SOURCE = Formula.of(operand(1));

        @Override
        public Formula formula() {
            return SOURCE;
        }

        @Override
        public double[] parameters() {
            return Formula.noParameters();
        }

        @Override
        public Spec[] infer(Spec... in) {
            Check.operands(this, in, 2, 2);
            Check.shape(in[0].shape().equals(Check.broadcast(this, in[0], in[1])), this,
                    "the source must broadcast to the target", "reshape the source", in);
            return NO_OUTPUTS;
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
        public Formula formula() {
            return FORMULA;
        }

        @Override
        public double[] parameters() {
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
        public Formula formula() {
            return FORMULA;
        }

        @Override
        public double[] parameters() {
            return new double[] {epsilon, unbiased, 1 - weight, weight};
        }
    }

    /**
     * Operands {@code (parameter, gradient, state...)}: one step of an optimiser's rule, which names its state.
     *
     * @param rule of the optimiser
     * @param rate learning rate
     * @param step number of the step, from 1; 1 if the rule does not depend on it
     */
    record Step(Rule rule, double rate, long step) implements Update {
        /** Makes steps equal that do the same. */
        public Step {
            step = rule.countsSteps() ? step : 1;
        }

        @Override
        public Formula formula() {
            return rule.formula();
        }

        @Override
        public double[] parameters() {
            double[] values = new double[rule.formula().parameters()];
            Arrays.setAll(values, i -> rule.coefficient(i, rate, step));
            return values;
        }

        @Override
        public String name() {
            return rule.name().toLowerCase(Locale.ROOT);
        }
    }
}
