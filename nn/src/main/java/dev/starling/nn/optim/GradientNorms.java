package dev.starling.nn.optim;

import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Measures the Euclidean norms of the gradients that another optimiser steps along, which it does not change.
 *
 * <pre>{@code
 * GradientNorms optimizer = GradientNorms.of(Adam.over(model).build());
 * Trainer.of(model, loss, optimizer).data(train).listeners(TrainingLog.csv(file).column("norm", optimizer::norm))...
 * }</pre>
 *
 * <p>With several processes the gradients are those that all have averaged. If steps are performed in other processes,
 * nothing is measured.
 */
public final class GradientNorms implements OptimizerAround {
    /** In a greater sum of squares, those that are 0 in f32 do not matter. */
    private static final double LEAST = 1e-30;

    private final Optimizer inner;
    /** The squares of the norms of the last step by parameter, on the device; {@code null} before the first. */
    private @Nullable Parameter squares;

    private GradientNorms(Optimizer inner) {
        this.inner = inner;
    }

    /** Returns an optimiser that measures the gradients that it passes to {@code inner}. Closing it closes both. */
    public static GradientNorms of(Optimizer inner) {
        return new GradientNorms(inner);
    }

    /** Returns the norm of all gradients of the last step; 0 before the first. Waits for the device. */
    public double norm() {
        double sum = 0;
        for (double norm : norms().values()) {
            sum += norm * norm;
        }
        return Math.sqrt(sum);
    }

    /**
     * Returns the norm of each parameter's gradient in the last step by path; 0 for a parameter that is frozen or has
     * none. Waits for the device.
     */
    public Map<String, Double> norms() {
        double[] each = squares == null ? new double[parameters().size()] : squares.master().toDoubles();
        Map<String, Double> norms = new LinkedHashMap<>();
        for (int i = 0; i < each.length; i++) {
            norms.put(path(i), Math.sqrt(each[i]));
        }
        return norms;
    }

    @Override
    public void step(@Nullable Tensor guard, Tensor[] gradients) {
        try (Scope scope = Scope.open("norms")) {
            Device device = parameters().getFirst().master().device();
            Tensor none = Tensor.zeros().to(device).to(DType.F64);
            Tensor[] each = new Tensor[gradients.length];
            for (int i = 0; i < each.length; i++) {
                Tensor g = gradients[i];
                each[i] = g == null || !parameters().get(i).requiresGradient() ? none
                        : Scope.run(() -> sumOfSquares(g.to(device)));
            }
            Tensor all = Tensor.stack(0, each);
            if (squares == null) {
                squares = Parameter.buffer(all);
            } else {
                squares.set(all);
            }
        }
        inner.step(guard, gradients);
    }

    /** Returns the sum of the squares of a gradient's elements, as f64. */
    private static Tensor sumOfSquares(Tensor gradient) {
        if (gradient.dtype().bytes() <= Float.BYTES && gradient.device().backend().hostVisible()) {
            Tensor sum = gradient.to(DType.F32).square().sum();
            double value = sum.item();
            if (value > LEAST && value < Double.POSITIVE_INFINITY) {
                return sum.to(DType.F64);
            }
        }
        // In f32 the square of a finite element may be infinite, or 0. The CPU has a fast kernel for sums of f32 only.
        return gradient.to(DType.F64).square().sum();
    }

    @Override
    public Optimizer inner() {
        return inner;
    }

    @Override
    public String toString() {
        return inner.toString();
    }

    @Override
    public void close() {
        inner.close();
        if (squares != null) {
            squares.close();
        }
    }
}
