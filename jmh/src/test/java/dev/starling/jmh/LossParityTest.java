package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.function.BinaryOperator;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Values and gradients of losses, Starling's and PyTorch's. */
class LossParityTest {
    private static final long MEAN = 1;
    private static final long SUM = 2;
    private static final long NONE_IGNORED = -100;
    private static final float[] CLASS_WEIGHTS = {0.5f, 2, 1, 3, 0.25f};
    private static final float[] POSITIVE = {2, 0.5f, 3, 1, 4};

    /** How the targets of a case are made. */
    private enum Targets { REAL, BINARY, SIGNS, CLASSES, COUNTS, SHARES }

    /**
     * A loss and the same in PyTorch.
     *
     * @param targets kind of targets
     * @param target their shape
     * @param result shape of the result
     */
    private record Case(Loss ours, BinaryOperator<org.bytedeco.pytorch.Tensor> theirs, Targets targets, long[] target,
            long... result) { }

    private static final Map<String, Case> CASES = new TreeMap<>(Map.ofEntries(
            Map.entry("cross-entropy", classes(Loss.crossEntropy(), null, NONE_IGNORED, 0, 6, 5)),
            Map.entry("cross-entropy of pixels", classes(Loss.crossEntropy(), null, NONE_IGNORED, 0, 2, 5, 3, 4)),
            Map.entry("smoothed cross-entropy", classes(Loss.crossEntropy(0.1), null, NONE_IGNORED, 0.1, 6, 5)),
            Map.entry("weighted cross-entropy", classes(Loss.crossEntropy().weights(doubles(CLASS_WEIGHTS)),
                    CLASS_WEIGHTS, NONE_IGNORED, 0, 6, 5)),
            Map.entry("weighted cross-entropy of pixels", classes(Loss.crossEntropy().weights(doubles(CLASS_WEIGHTS)),
                    CLASS_WEIGHTS, NONE_IGNORED, 0, 2, 5, 3, 4)),
            Map.entry("weighted, smoothed cross-entropy", classes(Loss.crossEntropy(0.2)
                    .weights(doubles(CLASS_WEIGHTS)), CLASS_WEIGHTS, NONE_IGNORED, 0.2, 6, 5)),
            Map.entry("weighted cross-entropy without class 2", classes(Loss.crossEntropy().ignoring(2)
                    .weights(doubles(CLASS_WEIGHTS)), CLASS_WEIGHTS, 2, 0, 9, 5)),
            Map.entry("focal cross-entropy", new Case(Loss.crossEntropy().focal(2), (x, y) -> {
                org.bytedeco.pytorch.Tensor own = torch.log_softmax(x, 1).gather(1, y.unsqueeze(1)).squeeze(1);
                return own.neg().mul(own.exp().neg().add(new Scalar(1)).pow(new Scalar(2))).mean();
            }, Targets.CLASSES, new long[] {6}, 6, 5)),
            Map.entry("binary cross-entropy", binary(Loss.binaryCrossEntropy(), null)),
            Map.entry("binary cross-entropy with positive weights", binary(Loss.binaryCrossEntropy()
                    .positiveWeight(doubles(POSITIVE)), POSITIVE)),
            Map.entry("binary cross-entropy with a positive weight", binary(Loss.binaryCrossEntropy()
                    .positiveWeight(3), new float[] {3, 3, 3, 3, 3})),
            Map.entry("binary focal loss", new Case(Loss.binaryCrossEntropy().focal(0.25, 2), (x, y) -> {
                org.bytedeco.pytorch.Tensor p = torch.sigmoid(x);
                org.bytedeco.pytorch.Tensor no = y.neg().add(new Scalar(1));
                org.bytedeco.pytorch.Tensor right = p.mul(y).add(p.neg().add(new Scalar(1)).mul(no));
                org.bytedeco.pytorch.Tensor alpha = y.mul(new Scalar(0.25)).add(no.mul(new Scalar(0.75)));
                return torch.log(right).neg().mul(right.neg().add(new Scalar(1)).pow(new Scalar(2))).mul(alpha).mean();
            }, Targets.BINARY, new long[] {6, 5}, 6, 5)),
            Map.entry("dice", new Case(Loss.dice(), (x, y) -> {
                org.bytedeco.pytorch.Tensor p = torch.sigmoid(x).reshape(3, -1);
                org.bytedeco.pytorch.Tensor flat = y.reshape(3, -1);
                org.bytedeco.pytorch.Tensor overlap = p.mul(flat).sum(1).mul(new Scalar(2)).add(new Scalar(1));
                return overlap.div(p.sum(1).add(flat.sum(1)).add(new Scalar(1))).neg().add(new Scalar(1)).mean();
            }, Targets.BINARY, new long[] {3, 4, 5}, 3, 4, 5)),
            Map.entry("mean squares", same(Loss.meanSquared(), (x, y) -> torch.mse_loss(x, y), Targets.REAL)),
            Map.entry("mean absolute", same(Loss.meanAbsolute(), (x, y) -> torch.l1_loss(x, y), Targets.REAL)),
            Map.entry("huber", same(Loss.huber(0.7), (x, y) -> torch.huber_loss(x, y, MEAN, 0.7), Targets.REAL)),
            Map.entry("soft margin", same(Loss.softMargin(), (x, y) -> torch.soft_margin_loss(x, y), Targets.SIGNS)),
            Map.entry("hinge", same(Loss.hinge(), (x, y) -> torch.relu(x.mul(y).neg().add(new Scalar(1))).mean(),
                    Targets.SIGNS)),
            Map.entry("squared hinge", same(Loss.squaredHinge(), (x, y) -> torch.relu(x.mul(y).neg()
                    .add(new Scalar(1))).pow(new Scalar(2)).mean(), Targets.SIGNS)),
            Map.entry("poisson", same(Loss.poisson(), (x, y) -> torch.poisson_nll_loss(x, y, true, false, 1e-8, MEAN),
                    Targets.COUNTS)),
            Map.entry("quantile", same(Loss.quantile(0.9), (x, y) -> torch.max(y.sub(x).mul(new Scalar(0.9)),
                    y.sub(x).mul(new Scalar(-0.1))).mean(), Targets.REAL)),
            Map.entry("distillation", same(Loss.distillation(3), (x, y) -> torch.kl_div(torch.log_softmax(x.div(
                    new Scalar(3)), 1), torch.log_softmax(y.div(new Scalar(3)), 1), SUM, true)
                    .mul(new Scalar(9.0 / x.size(0))), Targets.REAL)),
            Map.entry("gaussian", new Case(Loss.gaussian(), (x, y) -> {
                org.bytedeco.pytorch.Tensor variance = torch.exp(x.select(-1, 1));
                return torch.log(variance).add(x.select(-1, 0).sub(y).pow(new Scalar(2)).div(variance))
                        .mul(new Scalar(0.5)).mean();
            }, Targets.REAL, new long[] {6, 3}, 6, 3, 2)),
            Map.entry("cosine", same(Loss.cosine(), (x, y) -> torch.cosine_similarity(x, y, 1, 1e-8).neg()
                    .add(new Scalar(1)).mean(), Targets.REAL)),
            Map.entry("cosine embedding", new Case(Loss.cosineEmbedding(0.1), (x, y) -> torch.cosine_embedding_loss(
                    x.select(1, 0), x.select(1, 1), y, 0.1, MEAN), Targets.SIGNS, new long[] {8}, 8, 2, 4)),
            Map.entry("triplet", new Case(Loss.triplet(0.8), (x, y) -> torch.triplet_margin_loss(x.select(1, 0),
                    x.select(1, 1), x.select(1, 2), 0.8, 2, 1e-6, false, MEAN), Targets.REAL, new long[] {8}, 8, 3, 4)),
            Map.entry("contrastive", new Case(Loss.contrastive(3), (x, y) -> {
                org.bytedeco.pytorch.Tensor d = torch.pairwise_distance(x.select(1, 0), x.select(1, 1));
                org.bytedeco.pytorch.Tensor apart = torch.relu(d.neg().add(new Scalar(3))).pow(new Scalar(2));
                return y.mul(d.pow(new Scalar(2))).add(y.neg().add(new Scalar(1)).mul(apart)).mean();
            }, Targets.BINARY, new long[] {8}, 8, 2, 4)),
            Map.entry("weighted sum", same(Loss.meanSquared().times(0.3).plus(Loss.meanAbsolute()), (x, y) ->
                    torch.mse_loss(x, y).mul(new Scalar(0.3)).add(torch.l1_loss(x, y)), Targets.REAL))));

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    private static double[] doubles(float... values) {
        double[] all = new double[values.length];
        Arrays.setAll(all, i -> values[i]);
        return all;
    }

    private static Case classes(Loss ours, float[] weights, long ignored, double smoothing, long... result) {
        long[] target = LongStream.range(0, result.length).filter(i -> i != 1).map(i -> result[(int) i]).toArray();
        return new Case(ours, (x, y) -> torch.cross_entropy_loss(x, y, weights == null ? new TensorOptional()
                : new TensorOptional(Torch.tensor(weights, weights.length)), MEAN, ignored, smoothing),
                Targets.CLASSES, target, result);
    }

    private static Case binary(Loss ours, float[] positive) {
        return same(ours, (x, y) -> torch.binary_cross_entropy_with_logits(x, y, new TensorOptional(), positive == null
                ? new TensorOptional() : new TensorOptional(Torch.tensor(positive, positive.length)), MEAN),
                Targets.SHARES);
    }

    private static Case same(Loss ours, BinaryOperator<org.bytedeco.pytorch.Tensor> theirs, Targets targets) {
        return new Case(ours, theirs, targets, new long[] {6, 5}, 6, 5);
    }

    private static float[] targets(Targets kind, long... shape) {
        float[] values = Inputs.normal(7, shape);
        SplittableRandom random = new SplittableRandom(9);
        for (int i = 0; i < values.length; i++) {
            values[i] = switch (kind) {
                case REAL -> values[i];
                case BINARY -> random.nextInt(2);
                case SIGNS -> 2 * random.nextInt(2) - 1;
                case CLASSES -> random.nextInt(CLASS_WEIGHTS.length);
                case COUNTS -> random.nextInt(6);
                case SHARES -> random.nextFloat();
            };
        }
        return values;
    }

    static Stream<String> losses() {
        return CASES.keySet().stream();
    }

    @ParameterizedTest
    @MethodSource("losses")
    void computesAndDifferentiatesAsPyTorch(String name) {
        Case c = CASES.get(name);
        float[] input = Inputs.normal(3, c.result);
        float[] target = targets(c.targets, c.target);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope()) {
            Tensor x = Tensor.of(input, c.result);
            Tensor y = Tensor.of(target, c.target);
            Tensor own = c.targets == Targets.CLASSES ? y.to(DType.I64) : y;
            Tape tape = new Tape().watch(x);
            Tensor loss = tape.record(() -> c.ours.of(x, own));
            float[] gradient = tape.backward(loss).of(x).toFloats();

            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(input, c.result).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirY = Torch.tensor(target, c.target);
            org.bytedeco.pytorch.Tensor theirLoss = c.theirs.apply(theirX, c.targets == Targets.CLASSES
                    ? theirY.toType(torch.ScalarType.Long) : theirY);
            theirLoss.backward();
            float expected = theirLoss.item_float();
            assertThat((float) loss.item()).isCloseTo(expected, within(1e-5f * Math.max(1, Math.abs(expected))));
            float[] theirGradient = Torch.floats(theirX.grad());
            assertThat(gradient).usingComparatorWithPrecision(2e-5f).containsExactly(theirGradient);
        }
    }
}
