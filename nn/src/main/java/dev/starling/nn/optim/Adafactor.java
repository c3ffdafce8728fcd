package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Adafactor: Adam without a mean, whose square of a matrix is the product of a column and a row, so that the state is
 * much smaller than the weights. Steps are relative to the root mean square of the parameter and at most
 * {@code threshold} of it, for a rate of at most {@code 1/√t}. Beside 16-bit weights the state is f32. (Shazeer and
 * Stern, 2018)
 *
 * <p>The square of an f32 gradient element above 1.8·10¹⁹ is infinite. The step then fails, for parameters without two
 * dimensions all later steps, unless {@link ClipByNorm} or {@link ClipByValue} bounds the gradients before.
 */
public final class Adafactor {
    private static final double EPSILON = 1.1920928955078125e-7;

    private Adafactor() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.01 and without weight
     * decay. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. Weight decay is decoupled. */
    public static final class Builder extends TensorRuleBuilder<Builder> {
        private double exponent = -0.8;
        private double smallest = 1e-3;
        private double threshold = 1;

        private Builder(Module model) {
            super(model, 0.01, 0);
        }

        /** Sets the exponent of t in the weight of step t's square in the mean, negative; default -0.8. */
        public Builder decayExponent(double value) {
            exponent = requireExponent(value);
            return this;
        }

        /** Sets the root mean square that counts for parameters that have a smaller one; default 0.001. */
        public Builder smallestScale(double value) {
            smallest = requireAtLeast0("smallest scale", value);
            return this;
        }

        /** Sets the largest root mean square of a direction, greater than 0; default 1. */
        public Builder threshold(double value) {
            threshold = requireThreshold(value);
            return this;
        }

        @Override
        TensorRule rule(String path, Parameter parameter) {
            return new Factored(exponent, smallest, threshold);
        }
    }

    private static double requireExponent(double value) {
        if (!(value < 0 && value > Double.NEGATIVE_INFINITY)) {
            throw TensorException.argument("adafactor", "the exponent must be < 0 and finite, got " + value,
                    "use for example -0.8");
        }
        return value;
    }

    private static double requireThreshold(double value) {
        if (!(value > 0 && value < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument("adafactor", "the threshold must be > 0 and finite, got " + value,
                    "use for example 1");
        }
        return value;
    }

    /**
     * The direction of {@link Adafactor}; matrices are the last two dimensions.
     *
     * @param exponent of t in the weight of step t's square in the mean, negative
     * @param smallest root mean square that counts for parameters that have a smaller one, at least 0
     * @param threshold largest root mean square of a direction, greater than 0
     */
    public record Factored(double exponent, double smallest, double threshold) implements TensorRule {
        /** Throws {@link TensorException} for a setting out of its range. */
        public Factored {
            requireExponent(exponent);
            OptimizerBuilder.requireAtLeast0("smallest scale", smallest);
            requireThreshold(threshold);
        }

        @Override
        public boolean widensState() {
            return true;
        }

        @Override
        public Map<String, Shape> slots(Shape parameter) {
            Map<String, Shape> slots = new LinkedHashMap<>();
            slots.put("count", Shape.of());
            int rank = parameter.rank();
            if (rank < 2) {
                slots.put("square", parameter);
            } else {
                Shape stacked = parameter.slice(0, rank - 2);
                slots.put("rowSquare", stacked.concat(Shape.of(parameter.dim(-2), 1)));
                slots.put("columnSquare", stacked.concat(Shape.of(1, parameter.dim(-1))));
            }
            return slots;
        }

        @Override
        public Tensor[] step(Tensor weights, Tensor gradient, Tensor[] state, double rate) {
            TensorRuleBuilder.requireOperands(this, weights, gradient, state);
            Tensor count = state[0].add(1);
            Tensor share = count.pow(exponent);
            Tensor square = gradient.square();
            Tensor[] next = new Tensor[state.length + 1];
            next[1] = count;
            Tensor variance;
            if (state.length == 2) {
                next[2] = towards(state[1], square, share);
                variance = next[2];
            } else {
                next[2] = towards(state[1], square.mean(true, -1), share);
                next[3] = towards(state[2], square.mean(true, -2), share);
                variance = next[2].div(next[2].mean(true, -2).clamp(EPSILON, Double.POSITIVE_INFINITY)).mul(next[3]);
            }
            Tensor update = gradient.mul(variance.clamp(EPSILON * EPSILON, Double.POSITIVE_INFINITY).rsqrt());
            Tensor excess = root(update).mul(1 / threshold).clamp(1, Double.POSITIVE_INFINITY);
            // The rate is at most 1/√t, which is expressed as a factor of the rate.
            Tensor scale = root(weights).clamp(smallest, Double.POSITIVE_INFINITY);
            scale = rate > 0 ? scale.mul(count.rsqrt().mul(1 / rate).clamp(0, 1)) : scale;
            next[0] = update.mul(scale.div(excess));
            return next;
        }

        private static Tensor towards(Tensor mean, Tensor value, Tensor share) {
            return mean.add(value.sub(mean).mul(share));
        }

        /** Returns the root mean square. */
        private static Tensor root(Tensor x) {
            return x.square().mean().sqrt();
        }
    }
}
