package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shaping;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;

/**
 * Scales all gradients together so that their Euclidean norm stays below a bound, before another optimiser takes its
 * step. A norm that is not finite throws before anything is changed. (Pascanu et al., 2012)
 */
public final class ClipByNorm implements Optimizer {
    private final Optimizer inner;
    private final double bound;
    private double norm;

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

    /** Returns the norm of the last step's gradients, before they were scaled. */
    public double norm() {
        return norm;
    }

    @Override
    public void step(Tensor... gradients) {
        try (Scope scope = Scope.open("clip")) {
            norm = Math.sqrt(sumOfSquares(gradients));
            if (!Double.isFinite(norm)) {
                throw new TensorException(TensorException.Problem.ANOMALY, "clip", List.of(),
                        "the norm of the gradients is " + norm, "lower the rate, or look for the cause with "
                        + "Tape.detectAnomalies; the parameters are as before the step");
            }
            if (norm <= bound) {
                inner.step(gradients);
                return;
            }
            Tensor[] scaled = new Tensor[gradients.length];
            for (int i = 0; i < scaled.length; i++) {
                scaled[i] = gradients[i] == null ? null : gradients[i].mul(bound / norm);
            }
            inner.step(scaled);
        }
    }

    private static double sumOfSquares(Tensor[] gradients) {
        Tensor[] sums = new Tensor[gradients.length];
        int n = 0;
        for (Tensor g : gradients) {
            if (g != null) {
                sums[n++] = g.square().sum();
            }
        }
        return n == 0 ? 0 : Shaping.stack(0, Arrays.copyOf(sums, n)).sum().item();
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
    public void close() {
        inner.close();
    }
}
