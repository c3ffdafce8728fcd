package dev.starling.nn.loss;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.List;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * A weighted sum of losses and of penalties on weights.
 *
 * @param losses the losses
 * @param factors one for each loss
 * @param penalties the penalties
 */
record SumOfLosses(List<Loss> losses, double[] factors, List<Penalty> penalties) implements Loss {
    /**
     * A penalty on weights.
     *
     * @param name its name
     * @param weights the weights
     * @param strength its factor
     * @param of function of each element
     */
    record Penalty(String name, List<Parameter> weights, double strength, UnaryOperator<Tensor> of) {
        @Override
        public String toString() {
            return name + " of " + weights.size() + " parameters times " + strength;
        }
    }

    @Override
    public Tensor of(Tensor result, Tensor target) {
        return sum(loss -> loss.of(result, target));
    }

    /** Returns the sum with weighted losses; penalties are not weighted. */
    @Override
    public Tensor weighted(Tensor result, Tensor target, Tensor weights) {
        return sum(loss -> loss.weighted(result, target, weights));
    }

    private Tensor sum(Function<Loss, Tensor> value) {
        Tensor sum = value.apply(losses.getFirst());
        sum = factors[0] == 1 ? sum : sum.mul(factors[0]);
        for (int i = 1; i < factors.length; i++) {
            Tensor next = value.apply(losses.get(i));
            sum = sum.add(factors[i] == 1 ? next : next.mul(factors[i]));
        }
        for (Penalty penalty : penalties) {
            for (Parameter p : penalty.weights) {
                Tensor all = penalty.of.apply(Elementwise.wide(p.master())).sum().mul(penalty.strength);
                sum = sum.add(all.to(sum.device()).to(sum.dtype()));
            }
        }
        return sum;
    }

    /** Returns the divisor of the first loss, by which the means of all are weighted. */
    @Override
    public double divisor(Tensor result, Tensor target) {
        return losses.getFirst().divisor(result, target);
    }

    @Override
    public boolean expectsProbabilities() {
        return losses.stream().allMatch(Loss::expectsProbabilities) && Arrays.stream(factors).allMatch(f -> f >= 0)
                && penalties.stream().allMatch(p -> p.strength >= 0);
    }

    @Override
    public boolean expectsLogits() {
        return losses.stream().anyMatch(Loss::expectsLogits);
    }

    @Override
    public boolean widens() {
        return losses.stream().allMatch(Loss::widens);
    }

    @Override
    public String toString() {
        return losses.stream().map(Loss::describe).toList() + " times " + Arrays.toString(factors)
                + (penalties.isEmpty() ? "" : " plus " + penalties);
    }
}
