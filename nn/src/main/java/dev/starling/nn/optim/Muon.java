package dev.starling.nn.optim;

import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Map;
import java.util.function.Predicate;

/**
 * Muon: steps along the orthogonal matrix that is nearest to a matrix's momentum, computed by five Newton-Schulz
 * iterations. A weight {@code [out, ..]} of a convolution counts as the matrix {@code [out, in·∏kernel]}. All other
 * parameters step as with {@link AdamW}, but with f32 state beside 16-bit weights. Directions of matrices are
 * multiplied by {@code 0.2·√max(rows, columns)}, so that one learning rate suits both; in PyTorch, whose Muon refuses
 * other parameters, this is an option and the default is {@code √max(1, rows/columns)}. (Jordan et al., 2024; Liu et
 * al., Muon is scalable for LLM training, 2025)
 */
public final class Muon {
    private static final int ITERATIONS = 5;
    private static final double EPSILON = 1e-7;

    private Muon() {
    }

    /**
     * Returns a builder of an optimiser for all parameters of {@code model}, with learning rate 0.001 and weight decay
     * 0.1. Frozen parameters do not change while frozen.
     */
    public static Builder over(Module model) {
        return new Builder(model);
    }

    /** Collects the settings of the optimiser. Weight decay is decoupled. */
    public static final class Builder extends TensorRuleBuilder<Builder> {
        private Predicate<String> matrices = path -> true;
        private double momentum = 0.95;
        private boolean nesterov = true;
        private double beta1 = 0.9;
        private double beta2 = 0.999;

        private Builder(Module model) {
            super(model, 1e-3, 0.1);
        }

        /**
         * Selects, by path, the weights of two or more dimensions that step as matrices; default all. Embeddings and
         * the last layer usually do better with AdamW: {@code matrices(path -> path.startsWith("blocks."))}.
         */
        public Builder matrices(Predicate<String> paths) {
            matrices = paths;
            return this;
        }

        /** Sets the decay of the momentum, in [0, 1), and whether it is Nesterov's; default 0.95 and true. */
        public Builder momentum(double value, boolean lookAhead) {
            momentum = requireDecay("momentum", value);
            nesterov = lookAhead;
            return this;
        }

        /** Sets the decay rates of AdamW's means, each in [0, 1); default 0.9 and 0.999. */
        public Builder betas(double gradient, double square) {
            beta1 = requireDecay("beta", gradient);
            beta2 = requireDecay("beta", square);
            return this;
        }

        @Override
        TensorRule rule(String path, Parameter parameter) {
            return parameter.shape().rank() >= 2 && matrices.test(path) ? new Orthogonal(momentum, nesterov)
                    : new Moments(beta1, beta2, 1e-8, 0, false);
        }
    }

    /**
     * The direction of {@link Muon} for a matrix.
     *
     * @param momentum decay of the velocity, in [0, 1)
     * @param nesterov whether the momentum is Nesterov's
     */
    public record Orthogonal(double momentum, boolean nesterov) implements TensorRule {
        /** Throws {@link TensorException} for a setting out of its range. */
        public Orthogonal {
            OptimizerBuilder.requireDecay("momentum", momentum);
        }

        @Override
        public Map<String, Shape> slots(Shape parameter) {
            if (parameter.rank() < 2) {
                throw TensorException.argument("muon", "a parameter must have two or more dimensions to step as a "
                        + "matrix, got " + parameter, "use AdamW's rule for it");
            }
            return Map.of("velocity", parameter);
        }

        @Override
        public Tensor[] step(Tensor weights, Tensor gradient, Tensor[] state, double rate) {
            TensorRuleBuilder.requireOperands(this, weights, gradient, state);
            Tensor velocity = state[0].mul(momentum).add(gradient.mul(1 - momentum));
            Tensor ahead = nesterov ? gradient.mul(1 - momentum).add(velocity.mul(momentum)) : velocity;
            Tensor matrix = ahead.flatten(1, -1);
            double scale = 0.2 * Math.sqrt(Math.max(matrix.size(0), matrix.size(1)));
            return new Tensor[] {nearest(matrix).mul(scale).reshape(weights.shape()), velocity};
        }

        /** Moves all singular values to between 0.7 and 1.2, by the polynomial ax + bx³ + cx⁵. */
        private static Tensor nearest(Tensor matrix) {
            boolean tall = matrix.size(0) > matrix.size(1);
            Tensor x = tall ? matrix.t() : matrix;
            x = x.div(x.norm().clamp(EPSILON, Double.POSITIVE_INFINITY));
            for (int i = 0; i < ITERATIONS; i++) {
                Tensor a = x.matmul(x.t());
                Tensor b = a.mul(-4.7750).add(a.matmul(a).mul(2.0315));
                x = x.mul(3.4445).add(b.matmul(x));
            }
            return tall ? x.t() : x;
        }
    }
}
