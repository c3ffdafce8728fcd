package dev.starling.tensor;

import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Normalization;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Normalisation to mean 0 and variance 1, followed by a learned scale {@code gamma} and shift {@code beta}. Both may be
 * f32 beside a 16-bit {@code x}: the statistics are then f32 too, and the result is rounded to x's type.
 */
public final class Norms {
    private Norms() {
    }

    /**
     * A normalised batch and its statistics.
     *
     * @param y shaped like {@code x}
     * @param mean {@code [C]}
     * @param inverseDeviation {@code [C]}: {@code 1/√(variance + epsilon)}, with the biased variance
     */
    public record Batch(Tensor y, Tensor mean, Tensor inverseDeviation) {
        /** Returns the biased variance {@code [C]}, given the {@code epsilon} that normalised the batch. */
        public Tensor variance(double epsilon) {
            return inverseDeviation.square().reciprocal().sub(epsilon).clamp(0, Double.POSITIVE_INFINITY);
        }
    }

    /**
     * Batch normalisation with the batch's own statistics, for training. (Ioffe and Szegedy, 2015)
     *
     * @param x {@code [N, C, ..]}
     * @param gamma {@code [C]}, or {@code null} for ones
     * @param beta {@code [C]}, or {@code null} for zeros
     * @param epsilon added to the variance
     */
    public static Batch batchNorm(Tensor x, @Nullable Tensor gamma, @Nullable Tensor beta, double epsilon) {
        return batchNorm(x, gamma, beta, epsilon, Epilogue.NONE);
    }

    /** Batch normalisation for training, with an epilogue applied to {@code y} in the same pass. */
    public static Batch batchNorm(Tensor x, @Nullable Tensor gamma, @Nullable Tensor beta, double epsilon,
            Epilogue epilogue) {
        requireChannels("batchNorm", x);
        Spec channels = x.spec().with(Shape.of(x.size(1)));
        Tensor[] r = Tensor.apply(new Normalization.BatchNorm(epsilon, epilogue), x,
                gamma == null ? Tensor.full(channels, 1) : gamma, beta == null ? Tensor.full(channels, 0) : beta);
        return new Batch(r[0], r[1], r[2]);
    }

    /**
     * Batch normalisation with given statistics, for inference. 16-bit types are computed in f32.
     *
     * @param x {@code [N, C, ..]}
     * @param mean {@code [C]}
     * @param variance {@code [C]}
     * @param gamma {@code [C]}, or {@code null} for ones
     * @param beta {@code [C]}, or {@code null} for zeros
     * @param epsilon added to the variance
     * @return shaped like {@code x}
     */
    public static Tensor batchNorm(Tensor x, Tensor mean, Tensor variance, @Nullable Tensor gamma,
            @Nullable Tensor beta, double epsilon) {
        requireChannels("batchNorm", x);
        requireFloating("batchNorm", x);
        requireEpsilon("batchNorm", epsilon);
        Tensor scale = wide(variance).add(epsilon).rsqrt();
        scale = gamma == null ? scale : scale.mul(gamma);
        Tensor shift = wide(mean).mul(scale).neg();
        shift = beta == null ? shift : shift.add(beta);
        Shape channels = perChannel(x);
        return x.mul(scale.reshape(channels)).add(shift.reshape(channels)).to(x.dtype());
    }

    /**
     * Layer normalisation over the trailing dimensions that {@code gamma} has. (Ba, Kiros and Hinton, 2016)
     *
     * @param x {@code [.., *d]}
     * @param gamma {@code [*d]}
     * @param beta {@code [*d]}, or {@code null} for zeros
     * @param epsilon added to the variance
     * @return shaped like {@code x}
     */
    public static Tensor layerNorm(Tensor x, Tensor gamma, @Nullable Tensor beta, double epsilon) {
        return Tensor.compute(new Normalization.LayerNorm(epsilon), x, gamma, beta == null ? gamma.zerosLike() : beta);
    }

    /**
     * Group normalisation: the channels of each sample are divided into groups, and each group is normalised
     * separately. (Wu and He, 2018)
     *
     * @param x {@code [N, C, ..]}
     * @param groups divides C; 1 normalises each sample as a whole
     * @param gamma {@code [C]}, or {@code null} for ones
     * @param beta {@code [C]}, or {@code null} for zeros
     * @param epsilon added to the variance
     * @return shaped like {@code x}
     */
    public static Tensor groupNorm(Tensor x, int groups, @Nullable Tensor gamma, @Nullable Tensor beta,
            double epsilon) {
        return groupNorm(x, (long) groups, gamma, beta, epsilon);
    }

    private static Tensor groupNorm(Tensor x, long groups, @Nullable Tensor gamma, @Nullable Tensor beta,
            double epsilon) {
        requireChannels("groupNorm", x);
        requireFloating("groupNorm", x);
        if (groups <= 0 || x.size(1) % groups != 0) {
            throw new TensorException(TensorException.Problem.ARGUMENT, "groupNorm", List.of(x.spec()),
                    x.size(1) + " channels must divide into " + groups + " groups", "change groups");
        }
        long each = x.shape().slice(1, x.rank()).count() / groups;
        Tensor wide = gamma == null ? x : x.to(DType.promote(x.dtype(), gamma.dtype()));
        Spec ones = wide.spec().with(Shape.of(each));
        Tensor y = layerNorm(wide.reshape(x.size(0), groups, each), Tensor.full(ones, 1), null, epsilon);
        y = y.reshape(x.shape());
        Shape channels = perChannel(x);
        y = gamma == null ? y : y.mul(gamma.reshape(channels));
        y = beta == null ? y : y.add(beta.reshape(channels));
        return y.to(x.dtype());
    }

    /** Instance normalisation: {@link #groupNorm} with one group per channel. (Ulyanov et al., 2016) */
    public static Tensor instanceNorm(Tensor x, @Nullable Tensor gamma, @Nullable Tensor beta, double epsilon) {
        requireChannels("instanceNorm", x);
        return groupNorm(x, x.size(1), gamma, beta, epsilon);
    }

    /**
     * Divides by the root mean square over the trailing dimensions that {@code gamma} has. 16-bit types are computed in
     * f32. (Zhang and Sennrich, 2019)
     *
     * @param x {@code [.., *d]}
     * @param gamma {@code [*d]}
     * @param epsilon added to the mean square
     * @return shaped like {@code x}
     */
    public static Tensor rmsNorm(Tensor x, Tensor gamma, double epsilon) {
        int[] trailing = new int[gamma.rank()];
        Arrays.setAll(trailing, i -> i - trailing.length);
        if (gamma.rank() == 0 || gamma.rank() > x.rank()
                || !x.shape().slice(x.rank() - gamma.rank(), x.rank()).equals(gamma.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "rmsNorm", List.of(x.spec(), gamma.spec()),
                    "gamma must have the trailing sizes of x", "give gamma one value for each normalised element");
        }
        requireFloating("rmsNorm", x);
        requireEpsilon("rmsNorm", epsilon);
        Tensor wide = wide(x);
        Tensor inverse = wide.square().mean(true, trailing).add(epsilon).rsqrt();
        return wide.mul(inverse).to(DType.promote(x.dtype(), gamma.dtype())).mul(gamma).to(x.dtype());
    }

    /** Returns {@code [1, C, 1, ..]}: the shape in which one value per channel broadcasts to {@code x}. */
    static Shape perChannel(Tensor x) {
        long[] dims = new long[x.rank()];
        Arrays.fill(dims, 1);
        dims[1] = x.size(1);
        return Shape.of(dims);
    }

    private static Tensor wide(Tensor x) {
        return x.dtype().bytes() == 2 ? x.to(DType.F32) : x;
    }

    private static void requireFloating(String op, Tensor x) {
        if (!x.dtype().isFloating()) {
            throw new TensorException(TensorException.Problem.DTYPE, op, List.of(x.spec()), "x must be floating",
                    "cast with to(DType)");
        }
    }

    private static void requireEpsilon(String op, double epsilon) {
        if (!(epsilon >= 0 && epsilon < Double.POSITIVE_INFINITY)) {
            throw TensorException.argument(op, "epsilon must be >= 0 and finite, got " + epsilon,
                    "use 1e-5, for example");
        }
    }

    private static void requireChannels(String op, Tensor x) {
        if (x.rank() < 2) {
            throw new TensorException(TensorException.Problem.SHAPE, op, List.of(x.spec()), "x must be [N, C, ..]",
                    "unsqueeze it");
        }
    }
}
