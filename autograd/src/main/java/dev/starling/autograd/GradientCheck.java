package dev.starling.autograd;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.Function;

/**
 * Compares gradients with finite differences along random directions: for random {@code u} and {@code v} the analytic
 * {@code ⟨∇(u·f), v⟩} must equal {@code u·(f(x + εv) - f(x - εv))/2ε}.
 */
public final class GradientCheck {
    private static final double STEP = 1e-5;
    private static final double FIRST_ORDER = 1e-6;
    private static final double SECOND_ORDER = 1e-5;

    private GradientCheck() {
    }

    /** The derivative along one direction: by the tape, and by finite differences. */
    private record Derivative(double analytic, double numeric) {
        /** Requires both to agree. NaN never agrees. */
        void require(String order, double tolerance, Tensor[] inputs) {
            if (!(Math.abs(analytic - numeric) <= tolerance * Math.max(1, Math.abs(numeric)))) {
                throw new TensorException(TensorException.Problem.ARGUMENT, "gradientCheck",
                        Arrays.stream(inputs).map(Tensor::spec).toList(),
                        order + " derivative: analytic " + analytic + " ≠ numeric " + numeric,
                        "check the vjp of the operations used, or move the inputs away from points without a "
                        + "derivative");
            }
        }
    }

    /**
     * Checks the first and second derivatives of {@code f} at f64 {@code inputs}.
     *
     * @throws TensorException if an analytic and a numeric derivative differ
     */
    public static void check(Function<Tensor[], Tensor> f, Tensor... inputs) {
        requireDoubles(inputs);
        firstOrder(f, 1, inputs).require("first", FIRST_ORDER, inputs);
        secondOrder(f, 2, inputs).require("second", SECOND_ORDER, inputs);
    }

    /** Compares the first derivative along a direction drawn from {@code seed}. */
    private static Derivative firstOrder(Function<Tensor[], Tensor> f, long seed, Tensor... inputs) {
        SplittableRandom random = new SplittableRandom(seed);
        Tape tape = new Tape().watch(inputs);
        Tensor y = tape.record(() -> f.apply(inputs));
        Tensor u = random(random, y);
        Tensor[] v = directions(random, inputs);
        double analytic = 0;
        if (tape.depends(y)) {
            Gradients g = tape.backward(y, u);
            for (int i = 0; i < inputs.length; i++) {
                Tensor gi = g.get(inputs[i]);
                analytic += gi == null ? 0 : gi.mul(v[i]).sum().item();
            }
        }
        double up = f.apply(shifted(inputs, v, STEP)).mul(u).sum().item();
        double down = f.apply(shifted(inputs, v, -STEP)).mul(u).sum().item();
        return new Derivative(analytic, (up - down) / (2 * STEP));
    }

    /** Compares the derivative of the gradient along a direction drawn from {@code seed}. */
    private static Derivative secondOrder(Function<Tensor[], Tensor> f, long seed, Tensor... inputs) {
        SplittableRandom random = new SplittableRandom(seed);
        Tensor[] w = directions(random, inputs);
        Tensor u = random(random, f.apply(inputs));
        Function<Tensor[], Tensor> slope = x -> {
            Tape tape = new Tape().watch(x);
            Tensor y = tape.record(() -> f.apply(x));
            Tensor sum = x[0].scalarLike(0);
            if (tape.depends(y)) {
                Gradients g = tape.backward(y, u);
                for (int i = 0; i < x.length; i++) {
                    Tensor gradient = g.get(x[i]);
                    sum = gradient == null ? sum : sum.add(gradient.mul(w[i]).sum());
                }
            }
            return sum;
        };
        return firstOrder(slope, seed + 1, inputs);
    }

    private static void requireDoubles(Tensor[] inputs) {
        for (Tensor x : inputs) {
            if (x.dtype() != DType.F64) {
                throw new TensorException(TensorException.Problem.DTYPE, "gradientCheck", List.of(x.spec()),
                        "finite differences need f64", "cast inputs with to(DType.F64)");
            }
        }
    }

    private static Tensor[] directions(SplittableRandom random, Tensor[] inputs) {
        Tensor[] v = new Tensor[inputs.length];
        for (int i = 0; i < v.length; i++) {
            v[i] = random(random, inputs[i]);
        }
        return v;
    }

    private static Tensor random(SplittableRandom random, Tensor like) {
        Shape shape = like.shape();
        double[] values = random.doubles(shape.count(), -1, 1).toArray();
        return Tensor.of(values, shape.count()).reshape(shape).to(like.device());
    }

    private static Tensor[] shifted(Tensor[] inputs, Tensor[] directions, double step) {
        Tensor[] x = new Tensor[inputs.length];
        for (int i = 0; i < x.length; i++) {
            x[i] = inputs[i].add(directions[i].mul(step));
        }
        return x;
    }
}
