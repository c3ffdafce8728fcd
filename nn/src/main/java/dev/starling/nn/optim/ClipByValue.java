package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Clamps each element of the gradients to ±bound before another optimiser performs its step. An element that is
 * infinite or NaN is an error as without clipping.
 */
public final class ClipByValue implements OptimizerAround {
    private final Optimizer inner;
    private final double bound;

    private ClipByValue(Optimizer inner, double bound) {
        this.inner = inner;
        this.bound = bound;
    }

    /**
     * Returns an optimiser that clips gradients before it passes them to {@code inner}. Closing it closes
     * {@code inner}.
     */
    public static ClipByValue of(Optimizer inner, double bound) {
        if (!(bound > 0)) {
            throw TensorException.argument("clip", "the bound must be > 0, got " + bound, "use a bound greater than 0");
        }
        return new ClipByValue(inner, bound);
    }

    @Override
    public Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>(inner.settings());
        settings.put("largest element of the gradients", Double.toString(bound));
        return settings;
    }

    @Override
    public Optimizer inner() {
        return inner;
    }

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        try (Scope scope = Scope.open("clip")) {
            Tensor[] clipped = new Tensor[gradients.length];
            for (int i = 0; i < clipped.length; i++) {
                Tensor g = gradients[i];
                Parameter p = parameters().get(i);
                // An infinite element stays infinite, so that the step finds it.
                clipped[i] = g == null || !p.requiresGradient() ? null
                        : g.clamp(-bound, bound).add(g.mul(0));
            }
            inner.step(guard, clipped);
        }
    }

    @Override
    public String toString() {
        return inner + ", elements of the gradients within ±" + bound;
    }

    @Override
    public void close() {
        inner.close();
    }
}
