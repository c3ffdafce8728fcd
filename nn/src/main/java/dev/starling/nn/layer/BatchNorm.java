package dev.starling.nn.layer;

import dev.starling.nn.Foldable;
import dev.starling.nn.Fusible;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Update;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Batch normalisation of channels, {@code [N, C, ..]}. In training it uses the statistics of the batch and updates
 * running statistics; in inference it uses the running statistics. (Ioffe and Szegedy, 2015)
 */
public final class BatchNorm implements Fusible, Foldable {
    private static final double EPSILON = 1e-5;
    private static final double MOMENTUM = 0.1;

    private final Parameter weight;
    private final Parameter bias;
    private final Parameter runningMean;
    private final Parameter runningVariance;
    private final double epsilon;
    private final double momentum;

    private BatchNorm(long channels, double epsilon, double momentum) {
        if (!(epsilon >= 0 && epsilon < Double.POSITIVE_INFINITY && momentum >= 0 && momentum <= 1)) {
            throw TensorException.argument("batchNorm", "epsilon >= 0 and 0 <= momentum <= 1 must hold, got " + epsilon
                    + " and " + momentum, "correct them");
        }
        weight = Parameter.filled(1, channels);
        bias = Parameter.filled(0, channels);
        try (Scope scope = Scope.open("batchNorm")) {
            runningMean = Parameter.buffer(Tensor.zeros(channels));
            runningVariance = Parameter.buffer(Tensor.ones(channels));
        }
        this.epsilon = epsilon;
        this.momentum = momentum;
    }

    /** Returns a layer with epsilon 1e-5 and momentum 0.1. */
    public static BatchNorm of(long channels) {
        return of(channels, EPSILON, MOMENTUM);
    }

    /**
     * Returns a layer.
     *
     * @param channels C
     * @param epsilon added to the variance
     * @param momentum weight of a batch's statistics in the update of the running statistics
     */
    public static BatchNorm of(long channels, double epsilon, double momentum) {
        return new BatchNorm(channels, epsilon, momentum);
    }

    @Override
    public Tensor forward(Tensor x, Epilogue epilogue) {
        long channels = weight.shape().dim(0);
        if (x.rank() < 2 || x.size(1) != channels) {
            throw new TensorException(TensorException.Problem.SHAPE, "batchNorm", List.of(x.spec()), "x must be [N, "
                    + channels + ", ..], with the channels of the layer in dimension 1", x.rank() > 1
                    && x.size(-1) == channels ? "the channels seem to be in the last dimension: movedim(-1, 1) puts "
                    + "them second" : "build the layer for the number of channels of x");
        }
        if (Mode.isTraining()) {
            boolean fused = epilogue != Epilogue.GELU;
            Norms.Batch batch = Norms.batchNorm(x, weight.master(), bias.master(), epsilon,
                    fused ? epilogue : Epilogue.NONE);
            Recorder.with(Recorder.NONE, () -> updateRunning(batch, x));
            return fused ? batch.y() : epilogue.apply(batch.y());
        }
        return epilogue.apply(Norms.batchNorm(x, runningMean.value(), runningVariance.value(), weight.master(),
                bias.master(), epsilon));
    }

    /** Moves the running statistics towards those of the batch. The variance is unbiased (divided by n - 1). */
    private Tensor[] updateRunning(Norms.Batch batch, Tensor x) {
        double n = (double) x.count() / x.size(1);
        return Tensor.apply(new Update.RunningStatistics(momentum, epsilon, n / (n - 1)), runningMean.value(),
                batch.mean(), runningVariance.value(), batch.inverseDeviation());
    }

    /** {@inheritDoc} There is one for a dense layer and for a convolution that is not transposed. */
    @Override
    public @Nullable Layer foldedInto(Layer before) {
        try (Scope scope = Scope.open("fold")) {
            Tensor factor = exact(weight).div(exact(runningVariance).add(epsilon).sqrt());
            Tensor offset = exact(bias).sub(exact(runningMean).mul(factor));
            return Recorder.with(Recorder.NONE, () -> switch (before) {
                case Linear linear -> new Rows(linear.scaled(factor, offset));
                case Conv conv when !conv.isTransposed() -> conv.scaled(factor, offset);
                default -> null;
            });
        }
    }

    private static Tensor exact(Parameter parameter) {
        return parameter.master().to(DType.F64);
    }

    /** A dense layer whose result has its channels in dimension 1, as normalisation requires. */
    private record Rows(Linear linear) implements Fusible {
        @Override
        public Tensor forward(Tensor x, Epilogue epilogue) {
            if (x.rank() != 2) {
                throw new TensorException(TensorException.Problem.SHAPE, "batchNorm", List.of(x.spec()),
                        "x must be [N, C] before a dense layer with folded normalisation", "do not fold this model");
            }
            return linear.forward(x, epilogue);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("linear", linear);
        }
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
        visitor.parameter("bias", bias);
        visitor.parameter("running_mean", runningMean);
        visitor.parameter("running_var", runningVariance);
    }

    @Override
    public String settings() {
        return weight.shape().dim(0) + ", epsilon=" + epsilon + ", momentum=" + momentum;
    }

    @Override
    public String toString() {
        return tree();
    }
}
