package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shaping;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Scales all gradients together so that their Euclidean norm stays below a bound, before another optimiser takes its
 * step. Frozen parameters do not count. Where the norm is not finite nothing is changed; on a device that the host can
 * see into the step then throws, elsewhere {@link #requireFinite} does. (Pascanu et al., 2012)
 */
public final class ClipByNorm implements Optimizer {
    private final Optimizer inner;
    private final double bound;
    private Parameter norm;
    /** The gradients of the last step, if the host has not seen yet whether their norm is finite. */
    private Tensor[] given;

    private ClipByNorm(Optimizer inner, double bound) {
        this.inner = inner;
        this.bound = bound;
    }

    /** Bounds the norm of what {@code inner} is given; closing this closes {@code inner}. */
    public static ClipByNorm of(Optimizer inner, double bound) {
        if (!(bound > 0)) {
            throw TensorException.argument("clip", "the bound must be > 0, got " + bound, "give a greater one");
        }
        return new ClipByNorm(inner, bound);
    }

    /** Returns the norm of the last step's gradients, before they were scaled; waits for the device. */
    public double norm() {
        return norm == null ? 0 : norm.value().item();
    }

    @Override
    public void step(Tensor guard, Tensor[] gradients) {
        given = null;
        try (Scope scope = Scope.open("clip")) {
            Tensor[] here = new Tensor[gradients.length];
            for (int i = 0; i < here.length; i++) {
                Parameter p = parameters().get(i);
                here[i] = gradients[i] == null || !p.requiresGradient() ? null : gradients[i].to(p.value().device());
            }
            Tensor length = length(here);
            if (length == null) {
                inner.step(guard, here);
                return;
            }
            if (length.device().backend().hostVisible()) {
                requireFinite(gradients);
                if (norm() <= bound) {
                    inner.step(guard, here);
                    return;
                }
            }
            given = length.device().backend().hostVisible() ? null : gradients;
            Tensor factor = length.reciprocal().mul(bound).clamp(0, 1);
            for (int i = 0; i < here.length; i++) {
                here[i] = here[i] == null ? null : here[i].mul(factor.to(here[i].dtype()));
            }
            // 0 where both are finite.
            Tensor both = length.mul(0);
            inner.step(guard == null ? both : both.add(guard.mul(0).to(both.dtype())), here);
        }
    }

    /** Returns the norm, and keeps it, or {@code null} where there is no gradient. */
    private Tensor length(Tensor[] gradients) {
        Tensor[] sums = new Tensor[gradients.length];
        int n = 0;
        for (Tensor g : gradients) {
            if (g != null) {
                sums[n++] = (g.dtype().bytes() < Float.BYTES ? g.to(DType.F32) : g).square().sum();
            }
        }
        if (n == 0) {
            return null;
        }
        Tensor length = Shaping.stack(0, Arrays.copyOf(sums, n)).sum().sqrt();
        if (norm == null) {
            norm = Parameter.buffer(length);
        } else {
            norm.set(length);
        }
        return length;
    }

    @Override
    public int notFinite(Tensor[] gradients) {
        return inner.notFinite(gradients);
    }

    @Override
    public boolean refused() {
        return given != null && !Double.isFinite(norm()) || inner.refused();
    }

    @Override
    public void requireFinite() {
        if (given != null) {
            requireFinite(given);
        }
        inner.requireFinite();
    }

    private void requireFinite(Tensor[] gradients) {
        double now = norm();
        if (!Double.isFinite(now)) {
            int at = inner.notFinite(gradients);
            throw Slots.refusal(at < 0 ? List.of() : List.of(gradients[at].spec()), "the norm of the gradients is "
                    + now + (at < 0 ? "" : ": that of " + path(at) + " has an element that is infinite or NaN"));
        }
    }

    @Override
    public String path(int parameter) {
        return inner.path(parameter);
    }

    @Override
    public List<Parameter> parameters() {
        return inner.parameters();
    }

    @Override
    public long steps() {
        return inner.steps();
    }

    @Override
    public double rate() {
        return inner.rate();
    }

    @Override
    public Map<String, Parameter> state() {
        return inner.state();
    }

    @Override
    public void resume(long steps) {
        inner.resume(steps);
    }

    @Override
    public long[] missed() {
        return inner.missed();
    }

    @Override
    public void resume(long steps, long[] missed) {
        inner.resume(steps, missed);
    }

    @Override
    public void close() {
        inner.close();
        if (norm != null) {
            norm.close();
        }
    }
}
