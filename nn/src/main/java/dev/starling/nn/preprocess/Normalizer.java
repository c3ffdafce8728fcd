package dev.starling.nn.preprocess;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.tensor.DType;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;

/**
 * Normalises features to {@code (x - shift) / scale}, of the same shape as x: to mean 0 and variance 1, or to [0, 1].
 * NaN, a missing value, is first replaced by the feature's mean. Shift, scale and mean are buffers that are adapted to
 * the training data. A feature that is constant there is only shifted. Before it is adapted or loaded, the forward pass
 * is refused; on a device whose memory the host cannot access, its results are NaN.
 *
 * <p>Features lie in the last dimension, or in that of {@link #along}: {@code along(1)} normalises the channels of
 * images {@code [N, C, H, W]}.
 */
public final class Normalizer implements Layer {
    private static final int MAX_FEATURES = 1 << 24;
    /** Of the largest value: a smaller spread is that of rounding errors in f64, so that the feature is constant. */
    private static final double CONSTANT = 0x1p-40;
    /** Of the spread: the largest distance of neighbouring f32 numbers that keeps the values apart. */
    private static final double DISTANCE = 0.1;

    /** What the features of the training data have afterwards. */
    private enum Kind { MEAN_AND_VARIANCE, RANGE }

    private final int features;
    private final Kind kind;
    private final int axis;
    private final Parameter shift;
    private final Parameter scale;
    private final Parameter mean;
    /** Whether the buffers were found to have values. */
    private volatile boolean known;

    private Normalizer(int features, Kind kind, int axis) {
        if (features < 0 || features > MAX_FEATURES) {
            throw TensorException.argument("normaliser", "the number of features must be 0 to " + MAX_FEATURES
                    + ", got " + features, "give the size of the dimension of features");
        }
        this.features = features;
        this.kind = kind;
        this.axis = axis;
        try (Scope scope = Scope.open("normaliser")) {
            shift = Parameter.buffer(Tensor.zeros(features));
            scale = Parameter.buffer(Tensor.full(DType.F32, Double.NaN, features));
            mean = Parameter.buffer(Tensor.zeros(features));
        }
    }

    /** Returns a layer after which each feature of the training data has mean 0 and variance 1. */
    public static Normalizer standard(int features) {
        return new Normalizer(features, Kind.MEAN_AND_VARIANCE, -1);
    }

    /** Returns a layer after which the values of each feature of the training data reach from 0 to 1. */
    public static Normalizer minMax(int features) {
        return new Normalizer(features, Kind.RANGE, -1);
    }

    /** Returns a new layer, not adapted, for features in a dimension; negative counts from the end. */
    public Normalizer along(int dimension) {
        return new Normalizer(features, kind, dimension);
    }

    /**
     * Adapts the buffers to the training data, at once.
     *
     * @throws TensorException if a feature has only missing values or none, if its mean or spread is not finite in f32,
     *     or if its values are so large in comparison with their spread that they are almost equal in f32; the buffers
     *     stay as they were
     */
    public Normalizer adapt(Tensor x) {
        adapted(x, List.of()).run();
        return this;
    }

    /** Prepares to adapt the buffers. The {@code columns} are the names of features, or none. */
    Runnable adapted(Tensor x, List<String> columns) {
        Statistics statistics = new Statistics();
        statistics.add(x);
        return changed(statistics, columns);
    }

    /** Adapts the buffers to the inputs of epoch 0 of the training data. See {@link #adapt(Tensor)}. */
    public Normalizer adapt(DataLoader data) {
        Statistics statistics = new Statistics();
        for (Batch batch : data.epoch(0)) {
            statistics.add(batch.input());
        }
        changed(statistics, List.of()).run();
        return this;
    }

    private Runnable changed(Statistics of, List<String> columns) {
        float[] shifts = new float[features];
        float[] scales = new float[features];
        float[] means = new float[features];
        for (int i = 0; i < features; i++) {
            String values = "the values of " + (columns.isEmpty() ? "feature " + i : "column \"" + columns.get(i)
                    + "\"");
            if (of.count[i] == 0) {
                throw TensorException.argument("normaliser", values + " are all missing, or there are none",
                        "leave out the feature, or adapt to the data that the model is trained on");
            }
            boolean range = kind == Kind.RANGE;
            double spread = range ? of.max[i] - of.min[i] : Math.sqrt(of.squares[i] / of.count[i]);
            double largest = Math.max(Math.abs(of.min[i]), Math.abs(of.max[i]));
            boolean constant = (float) spread == 0 || spread <= largest * CONSTANT;
            values += " reach from " + of.min[i] + " to " + of.max[i];
            means[i] = (float) of.mean[i];
            shifts[i] = range ? (float) of.min[i] : means[i];
            scales[i] = constant ? 1 : (float) spread;
            if (!Double.isFinite((double) (float) spread + means[i] + shifts[i])) {
                throw TensorException.argument("normaliser", values + ", whose mean or spread is not finite in f32",
                        "leave out values that are infinite, or divide the feature");
            }
            if (!constant && Math.ulp((float) largest) > spread * DISTANCE) {
                throw TensorException.argument("normaliser", values + ", where neighbouring f32 numbers are "
                        + Math.ulp((float) largest) + " apart, too far for a spread of " + (float) spread,
                        "subtract a constant from the values first, for example the earliest time, or leave out a "
                                + "feature that is constant but for rounding");
            }
        }
        return () -> {
            try (Scope scope = Scope.open("normaliser")) {
                shift.set(Tensor.of(shifts));
                scale.set(Tensor.of(scales));
                mean.set(Tensor.of(means));
            }
        };
    }

    /** Returns whether the buffers have values, from {@link #adapt} or a file. */
    public boolean isAdapted() {
        return features == 0 || !Float.isNaN(scale.master().toFloats()[0]);
    }

    /**
     * Returns the layer that converts back, {@code y·scale + shift}, with the same buffers: for the end of a model
     * whose target has been normalised by this layer.
     */
    public Layer inverse() {
        return new Inverse(this);
    }

    /** Requires statistics, without which every result would be NaN. Not part of a recording. */
    private void requireAdapted() {
        if (known || !scale.master().device().backend().hostVisible()) {
            return;
        }
        Interceptor gate = Interceptor.replace(Interceptor.NONE);
        try {
            known = isAdapted();
        } finally {
            Interceptor.replace(gate);
        }
        if (!known) {
            throw TensorException.argument("normaliser", "it must have statistics of training data, got none",
                    "call adapt(..), or load the model first");
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        requireAdapted();
        Tensor wide = wide(x);
        Tensor complete = wide.isNan().where(on(wide, mean), wide);
        return complete.sub(on(wide, shift)).div(on(wide, scale)).to(type(x));
    }

    private Tensor back(Tensor y) {
        requireAdapted();
        return wide(y).mul(on(y, scale)).add(on(y, shift)).to(type(y));
    }

    private static Tensor wide(Tensor x) {
        return x.dtype().bytes() >= 4 && x.dtype().isFloating() ? x : x.to(DType.F32);
    }

    private static DType type(Tensor x) {
        return x.dtype().isFloating() ? x.dtype() : Precision.current().type();
    }

    /** Returns a buffer with a shape that is broadcast to that of x. */
    private Tensor on(Tensor x, Parameter buffer) {
        long[] shape = new long[x.rank()];
        Arrays.fill(shape, 1);
        shape[dimension(x)] = features;
        return buffer.value().reshape(shape);
    }

    private int dimension(Tensor x) {
        int dimension = axis < 0 ? x.rank() + axis : axis;
        if (dimension < 0 || dimension >= x.rank() || x.size(dimension) != features) {
            throw new TensorException(TensorException.Problem.SHAPE, "normaliser", List.of(x.spec()), "x must have "
                    + features + " features in dimension " + axis, "build the layer for the number of features of x, "
                    + "or use along(..)");
        }
        return dimension;
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("shift", shift);
        visitor.parameter("scale", scale);
        visitor.parameter("mean", mean);
    }

    @Override
    public String settings() {
        return features + (kind == Kind.RANGE ? ", to [0, 1]" : "") + (axis == -1 ? "" : ", along " + axis);
    }

    @Override
    public String toString() {
        return tree();
    }

    /**
     * Converts back.
     *
     * @param of the layer with the buffers
     */
    private record Inverse(Normalizer of) implements Layer {
        @Override
        public Tensor forward(Tensor y) {
            return of.back(y);
        }

        @Override
        public void visit(Visitor visitor) {
            of.visit(visitor);
        }

        @Override
        public String describe() {
            return "InverseNormalizer";
        }

        @Override
        public String settings() {
            return of.settings();
        }
    }

    /** Count, mean, squared deviations and range of each feature, in one pass over any number of tensors. */
    private final class Statistics {
        private final long[] count = new long[features];
        private final double[] mean = new double[features];
        private final double[] squares = new double[features];
        private final double[] min = new double[features];
        private final double[] max = new double[features];

        private Statistics() {
            Arrays.fill(min, Double.POSITIVE_INFINITY);
            Arrays.fill(max, Double.NEGATIVE_INFINITY);
        }

        private void add(Tensor x) {
            int dimension = dimension(x);
            int inner = Math.toIntExact(x.shape().slice(dimension + 1, x.rank()).count());
            double[] values;
            try (Scope scope = Scope.open("normaliser")) {
                values = x.to(DType.F64).toDoubles();
            }
            for (int i = 0; i < values.length; i++) {
                double value = values[i];
                if (!Double.isNaN(value)) {
                    int feature = i / inner % features;
                    double before = value - mean[feature];
                    mean[feature] += before / ++count[feature];
                    squares[feature] += before * (value - mean[feature]);
                    min[feature] = Math.min(min[feature], value);
                    max[feature] = Math.max(max[feature], value);
                }
            }
        }
    }
}
