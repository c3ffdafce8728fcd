package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Scales all gradients by one factor so that their Euclidean norm does not exceed a bound, before another optimiser
 * performs its step. Frozen parameters do not count. (PyTorch adds 10⁻⁶ to the norm, so that its result is slightly
 * shorter than the bound.) If the norm is not finite, nothing is changed. The step then throws if the host can access
 * the device's memory; otherwise {@link #requireFinite} does, also if only a square exceeds f32. (Pascanu et al., 2012)
 */
public final class ClipByNorm implements OptimizerAround {
    private final Optimizer inner;
    private final double bound;
    private @Nullable Parameter norm;
    /** The gradients of the last step, as long as the host has not read whether their norm is finite. */
    private Tensor @Nullable [] unchecked;

    private ClipByNorm(Optimizer inner, double bound) {
        this.inner = inner;
        this.bound = bound;
    }

    /**
     * Returns an optimiser that clips gradients before it passes them to {@code inner}. Closing it closes
     * {@code inner}.
     */
    public static ClipByNorm of(Optimizer inner, double bound) {
        if (!(bound > 0)) {
            throw TensorException.argument("clip", "the bound must be > 0, got " + bound, "use a bound greater than 0");
        }
        return new ClipByNorm(inner, bound);
    }

    /** Returns the norm of the last step's gradients before they were scaled. 0 without any. Waits for the device. */
    public double norm() {
        return norm == null ? 0 : norm.value().item();
    }

    @Override
    public String toString() {
        return inner + ", norm of the gradients at most " + bound;
    }

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        unchecked = null;
        try (Scope scope = Scope.open("clip")) {
            Tensor[] clipped = new Tensor[gradients.length];
            for (int i = 0; i < clipped.length; i++) {
                Parameter p = parameters().get(i);
                clipped[i] = gradients[i] == null || !p.requiresGradient() ? null : gradients[i].to(p.value().device());
            }
            Tensor length = computeNorm(clipped, DType.F32);
            if (length != null && length.device().backend().hostVisible() && !Double.isFinite(norm())) {
                // The square of a finite f32 element may be infinite.
                length = computeNorm(clipped, DType.F64);
            }
            if (length == null) {
                inner.step(guard, clipped);
                return;
            }
            if (length.device().backend().hostVisible()) {
                requireFinite(gradients);
                if (norm() <= bound) {
                    inner.step(guard, clipped);
                    return;
                }
            }
            unchecked = length.device().backend().hostVisible() ? null : gradients;
            Tensor factor = length.reciprocal().mul(bound).clamp(0, 1);
            for (int i = 0; i < clipped.length; i++) {
                clipped[i] = clipped[i] == null ? null : scale(clipped[i], factor);
            }
            // 0 if both norm and guard are finite, otherwise NaN.
            Tensor both = length.mul(0);
            inner.step(guard == null ? both : both.add(guard.mul(0).to(both.dtype())), clipped);
        }
    }

    /** Returns a gradient times a factor, which is not rounded to a narrower type. */
    private static Tensor scale(Tensor gradient, Tensor factor) {
        DType type = gradient.dtype();
        return type.bytes() < factor.dtype().bytes() ? gradient.to(factor.dtype()).mul(factor).to(type)
                : gradient.mul(factor.to(type));
    }

    /**
     * Computes the norm, in this type or that of a gradient if it is wider, and stores it in {@link #norm}. Returns
     * {@code null} if there is no gradient.
     */
    private @Nullable Tensor computeNorm(Tensor[] gradients, DType least) {
        Tensor[] sums = new Tensor[gradients.length];
        int n = 0;
        for (Tensor g : gradients) {
            if (g != null) {
                sums[n++] = (g.dtype().bytes() < least.bytes() ? g.to(least) : g).square().sum();
            }
        }
        if (n == 0) {
            if (norm != null) {
                norm.set(norm.value().zerosLike());
            }
            return null;
        }
        Tensor length = Tensor.stack(0, Arrays.copyOf(sums, n)).sum().sqrt();
        if (norm == null) {
            norm = Parameter.buffer(length);
        } else {
            // The parameters may have been converted or moved since the step before.
            norm.to(length.device());
            norm.to(length.dtype());
            norm.set(length);
        }
        return length;
    }

    @Override
    public Optimizer inner() {
        return inner;
    }

    /** Returns the norm of the last step's gradients on the device, or {@code null} if the host has checked it. */
    @Nullable Tensor found() {
        return unchecked == null || norm == null ? null : norm.value();
    }

    @Override
    public boolean skipped() {
        return unchecked != null && !Double.isFinite(norm()) || inner.skipped();
    }

    @Override
    public void requireFinite() {
        if (unchecked != null) {
            requireFinite(unchecked);
        }
        inner.requireFinite();
    }

    private void requireFinite(Tensor[] gradients) {
        double current = norm();
        if (!Double.isFinite(current)) {
            int at = inner.notFinite(gradients);
            throw RuleOptimizer.notFinite(at < 0 ? List.of() : List.of(gradients[at].spec()),
                    "the norm of the gradients is " + current + (at < 0 ? "" : ": that of " + path(at)
                    + " has an element that is infinite or NaN"));
        }
    }

    @Override
    public Map<String, String> settings() {
        Map<String, String> settings = new LinkedHashMap<>(inner.settings());
        settings.put("largest norm of the gradients", Double.toString(bound));
        return settings;
    }

    @Override
    public void close() {
        inner.close();
        if (norm != null) {
            norm.close();
        }
    }
}
