package dev.starling.nn;

import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/** Draws values that need more than one call of a generator. */
final class Drawing {
    private static final int MAX_ROUNDS = 200;

    private Drawing() {
    }

    static void requireFinite(String what, double value) {
        if (!Double.isFinite(value)) {
            throw TensorException.argument("initialise", "the " + what + " must be finite, got " + value,
                    "correct it");
        }
    }

    static Tensor truncatedNormal(Spec spec, Generator generator, double mean, double deviation, double low,
            double high) {
        if (!(low < high && deviation > 0)) {
            throw TensorException.argument("initialise", "low < high and deviation > 0 must hold, got " + low + ", "
                    + high + " and " + deviation, "correct the bounds");
        }
        Tensor x = generator.normal(spec, mean, deviation);
        for (int round = 0; round < MAX_ROUNDS; round++) {
            Tensor outside = x.lt(low).or(x.gt(high));
            if (outside.sum().item() == 0) {
                return x;
            }
            x = outside.where(generator.normal(spec, mean, deviation), x);
        }
        throw TensorException.argument("initialise", "too few numbers of a normal distribution with mean " + mean
                + " and deviation " + deviation + " are in [" + low + ", " + high + "]", "use wider bounds");
    }

    static Tensor orthogonal(Spec spec, Generator generator, double gain) {
        Shape shape = spec.shape();
        if (shape.rank() < 2) {
            throw new TensorException(TensorException.Problem.SHAPE, "initialise", List.of(spec),
                    "orthogonal weights need at least two dimensions", "use uniform, normal or constant");
        }
        if (shape.count() > Integer.MAX_VALUE) {
            throw new TensorException(TensorException.Problem.SHAPE, "initialise", List.of(spec),
                    "the host computes orthogonal weights of at most " + Integer.MAX_VALUE + " elements",
                    "use normal, whose rows are nearly orthogonal if they are long");
        }
        if (shape.count() == 0) {
            return Tensor.of(new float[0], shape.dims());
        }
        int rows = Math.toIntExact(shape.dim(0));
        int columns = Math.toIntExact(shape.slice(1, shape.rank()).count());
        boolean wide = rows <= columns;
        int count = wide ? rows : columns;
        int length = wide ? columns : rows;
        float[] drawn = generator.normal(new Spec(DType.F32, Shape.of(count, length), spec.device()), 0, 1).toFloats();
        double[][] vectors = new double[count][length];
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < length; k++) {
                vectors[i][k] = drawn[i * length + k];
            }
            normalise(vectors, i);
        }
        float[] elements = new float[rows * columns];
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < length; k++) {
                elements[wide ? i * columns + k : k * columns + i] = (float) (gain * vectors[i][k]);
            }
        }
        return Tensor.of(elements, shape.dims());
    }

    /** Makes a vector orthogonal to those before it, twice because of rounding, and of length 1. */
    private static void normalise(double[][] vectors, int i) {
        double[] v = vectors[i];
        for (int pass = 0; pass < 2; pass++) {
            for (int j = 0; j < i; j++) {
                double dot = dot(v, vectors[j]);
                for (int k = 0; k < v.length; k++) {
                    v[k] -= dot * vectors[j][k];
                }
            }
            double norm = Math.sqrt(dot(v, v));
            for (int k = 0; k < v.length; k++) {
                v[k] /= norm;
            }
        }
    }

    private static double dot(double[] a, double[] b) {
        double sum = 0;
        for (int k = 0; k < a.length; k++) {
            sum += a[k] * b[k];
        }
        return sum;
    }
}
