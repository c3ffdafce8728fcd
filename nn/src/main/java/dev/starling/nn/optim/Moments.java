package dev.starling.nn.optim;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Adam's direction {@code u = (m/(1-β₁ᵗ))/(√(v/(1-β₂ᵗ)) + ε) + decay·p}; see {@link dev.starling.tensor.op.Rule.Adam}.
 * The bias corrections are part of the state, as means of ones: each parameter counts its own steps. Beside 16-bit
 * weights the state is f32.
 *
 * @param beta1 decay of the mean, in [0, 1)
 * @param beta2 decay of the square, in [0, 1)
 * @param epsilon avoids division by 0; at least 0
 * @param decay strength of the weight decay, as part of the direction; at least 0
 * @param trusting whether the direction is multiplied by {@code ‖p‖/‖u‖}, or 1 if one of them is 0
 */
public record Moments(double beta1, double beta2, double epsilon, double decay, boolean trusting)
        implements TensorRule {
    /** Throws {@link dev.starling.tensor.TensorException} for a setting out of its range. */
    public Moments {
        OptimizerBuilder.requireDecay("beta", beta1);
        OptimizerBuilder.requireDecay("beta", beta2);
        OptimizerBuilder.requireAtLeast0("epsilon", epsilon);
        OptimizerBuilder.requireAtLeast0("weight decay", decay);
    }

    @Override
    public boolean widensState() {
        return true;
    }

    @Override
    public Map<String, Shape> slots(Shape parameter) {
        Map<String, Shape> slots = new LinkedHashMap<>();
        slots.put("mean", parameter);
        slots.put("square", parameter);
        slots.put("meanOfOnes", Shape.of());
        slots.put("squareOfOnes", Shape.of());
        return slots;
    }

    @Override
    public Tensor[] step(Tensor weights, Tensor gradient, Tensor[] state, double rate) {
        TensorRuleBuilder.requireOperands(this, weights, gradient, state);
        Tensor mean = state[0].mul(beta1).add(gradient.mul(1 - beta1));
        Tensor square = state[1].mul(beta2).add(gradient.square().mul(1 - beta2));
        Tensor meanOfOnes = state[2].mul(beta1).add(1 - beta1);
        Tensor squareOfOnes = state[3].mul(beta2).add(1 - beta2);
        Tensor direction = mean.div(meanOfOnes).div(square.div(squareOfOnes).sqrt().add(epsilon));
        if (decay > 0) {
            direction = direction.add(weights.mul(decay));
        }
        if (trusting) {
            Tensor ratio = weights.norm().div(direction.norm());
            direction = direction.mul(ratio.isFinite().and(ratio.gt(0)).where(ratio, ratio.onesLike()));
        }
        return new Tensor[] {direction, mean, square, meanOfOnes, squareOfOnes};
    }
}
