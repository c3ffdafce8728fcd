package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.jmh.pytorch.Torch;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeSet;
import java.util.function.BinaryOperator;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.global.torch;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Values and gradients of losses, Starling's in f32 and f64 and PyTorch's in f64; losses of single rows; and results so
 * large that exponentials overflow, or zeros, where both must be infinite or NaN at the same places.
 */
class LossParityTest {
    private static final long MEAN = 1;
    private static final long SUM = 2;
    private static final long NONE_IGNORED = -100;
    private static final double[] CLASS_WEIGHTS = {0.5, 2, 1, 3, 0.25};
    private static final double[] POSITIVE = {2, 0.5, 3, 1, 4};
    private static final long[][] ANY = {{6, 5}, {1, 1}, {2, 3, 5}, {1, 4, 2, 5}};
    private static final List<Case> CASES = new ArrayList<>();

    /** How the targets of a case are made. */
    private enum Targets { REAL, BINARY, SIGNS, CLASSES, COUNTS, SHARES }

    /** Result and target of PyTorch to its loss. */
    private interface TorchLoss extends BinaryOperator<org.bytedeco.pytorch.Tensor> { }

    /**
     * A loss and the same in PyTorch.
     *
     * @param row what makes the loss, as {@code docs/nn.md} lists it
     * @param targets kind of targets
     * @param without dimension of the result that targets do not have; negative if they have all
     * @param robust whether PyTorch's formula is one for large numbers
     * @param shapes shapes of results
     */
    private record Case(String row, Loss ours, TorchLoss theirs, Targets targets, int without, boolean robust,
            long[]... shapes) {
        long[] target(long... result) {
            return LongStream.range(0, result.length).filter(i -> i != without).map(i -> result[(int) i]).toArray();
        }

        @Override
        public String toString() {
            return row + " " + ours;
        }
    }

    static {
        classes();
        binary();
        numbers();
        rows();
    }

    @BeforeAll
    static void useOneThread() {
        Torch.threads(1);
    }

    private static TorchLoss crossEntropy(boolean weighted, long ignored, double smoothing) {
        return (x, y) -> torch.cross_entropy_loss(x, y, weighted ? new TensorOptional(Torch.tensor(CLASS_WEIGHTS, 5))
                : new TensorOptional(), MEAN, ignored, smoothing);
    }

    private static void classes(String row, Loss ours, TorchLoss theirs, long[]... shapes) {
        CASES.add(new Case(row, ours, theirs, Targets.CLASSES, 1, true, shapes));
    }

    private static void classes() {
        long[][] any = {{6, 5}, {1, 5}, {2, 5, 3, 4}, {3, 5, 2}};
        String row = "Loss.crossEntropy";
        classes(row, Loss.crossEntropy(), crossEntropy(false, NONE_IGNORED, 0), any);
        classes(row, Loss.crossEntropy(0.1), crossEntropy(false, NONE_IGNORED, 0.1), any);
        classes(row, Loss.crossEntropy(0.1, 2), crossEntropy(false, 2, 0.1), any);
        // Shapes of one class, and of targets that are all ignored, for which PyTorch's loss is NaN.
        CASES.add(new Case(row, Loss.crossEntropy(), crossEntropy(false, NONE_IGNORED, 0), Targets.COUNTS, 1, true,
                new long[][] {{4, 1}}));
        CASES.add(new Case(row, Loss.crossEntropy().ignoring(0), (x, y) -> x.sub(x).sum(), Targets.COUNTS, 1, true,
                new long[][] {{4, 1}}));
        CASES.add(new Case(row, Loss.crossEntropy(), crossEntropy(false, NONE_IGNORED, 0), Targets.SHARES, -1, true,
                new long[][] {{6, 5}, {2, 3, 4}}));
        CASES.add(new Case(row, Loss.crossEntropy(0.2), crossEntropy(false, NONE_IGNORED, 0.2), Targets.SHARES, -1,
                true, new long[][] {{6, 5}, {2, 3, 4}}));
        classes("Loss.crossEntropy().smoothing", Loss.crossEntropy().smoothing(0.3), crossEntropy(false, NONE_IGNORED,
                0.3), any);
        classes("Loss.crossEntropy().ignoring", Loss.crossEntropy().ignoring(2), crossEntropy(false, 2, 0), any);
        classes("Loss.crossEntropy().weights", Loss.crossEntropy().weights(CLASS_WEIGHTS), crossEntropy(true,
                NONE_IGNORED, 0), any);
        classes("Loss.crossEntropy().weights", Loss.crossEntropy().ignoring(2).weights(CLASS_WEIGHTS),
                crossEntropy(true, 2, 0), any);
        classes("Loss.crossEntropy().weights", Loss.crossEntropy(0.2, 1).weights(CLASS_WEIGHTS), crossEntropy(true, 1,
                0.2), any);
        classes("Loss.crossEntropy().classesIn", Loss.crossEntropy().classesIn(1), crossEntropy(false, NONE_IGNORED,
                0), new long[] {2, 5, 5});
        TorchLoss last = (x, y) -> crossEntropy(false, NONE_IGNORED, 0).apply(x.movedim(-1, 1), y);
        CASES.add(new Case("Loss.crossEntropy().classesIn", Loss.crossEntropy().classesIn(-1), last, Targets.CLASSES,
                2, true, new long[] {2, 5, 5}, new long[] {1, 1, 5}));
        CASES.add(new Case("Loss.crossEntropyOfLast", Loss.crossEntropyOfLast(), last, Targets.CLASSES, 2, true,
                new long[] {2, 3, 5}));
        CASES.add(new Case("Loss.crossEntropy().focal", Loss.crossEntropy().focal(2), (x, y) -> {
            org.bytedeco.pytorch.Tensor own = torch.log_softmax(x, 1).gather(1, y.unsqueeze(1)).squeeze(1);
            return own.neg().mul(own.exp().neg().add(new Scalar(1)).pow(new Scalar(2))).mean();
        }, Targets.CLASSES, 1, true, any));
        same("Loss.distillation", Loss.distillation(3), (x, y) -> torch.kl_div(torch.log_softmax(x.div(new Scalar(3)),
                1), torch.log_softmax(y.div(new Scalar(3)), 1), SUM, true).mul(new Scalar(9.0 * x.size(1)
                / x.numel())), Targets.REAL, true);
    }

    private static void same(String row, Loss ours, TorchLoss theirs, Targets targets, boolean robust) {
        CASES.add(new Case(row, ours, theirs, targets, -1, robust, ANY));
    }

    private static TorchLoss binaryCrossEntropy(double... positive) {
        return (x, y) -> torch.binary_cross_entropy_with_logits(x, y, new TensorOptional(), positive.length == 0
                ? new TensorOptional() : new TensorOptional(Torch.tensor(positive, positive.length)), MEAN);
    }

    private static void binary() {
        String row = "Loss.binaryCrossEntropy";
        for (Targets targets : new Targets[] {Targets.BINARY, Targets.SHARES}) {
            same(row, Loss.binaryCrossEntropy(), binaryCrossEntropy(), targets, true);
            same(row + "().positiveWeight", Loss.binaryCrossEntropy().positiveWeight(3), binaryCrossEntropy(3),
                    targets, true);
        }
        CASES.add(new Case(row + "().positiveWeight", Loss.binaryCrossEntropy().positiveWeight(POSITIVE),
                binaryCrossEntropy(POSITIVE), Targets.SHARES, -1, true, new long[] {6, 5}, new long[] {2, 3, 5}));
        // As torchvision's sigmoid_focal_loss.
        same(row + "().focal", Loss.binaryCrossEntropy().focal(0.25, 2), (x, y) -> {
            org.bytedeco.pytorch.Tensor p = torch.sigmoid(x);
            org.bytedeco.pytorch.Tensor no = y.neg().add(new Scalar(1));
            org.bytedeco.pytorch.Tensor right = p.mul(y).add(p.neg().add(new Scalar(1)).mul(no));
            org.bytedeco.pytorch.Tensor alpha = y.mul(new Scalar(0.25)).add(no.mul(new Scalar(0.75)));
            return torch.binary_cross_entropy_with_logits(x, y, new TensorOptional(), new TensorOptional(), 0)
                    .mul(right.neg().add(new Scalar(1)).pow(new Scalar(2))).mul(alpha).mean();
        }, Targets.BINARY, true);
        same("Loss.dice", Loss.dice(), (x, y) -> {
            org.bytedeco.pytorch.Tensor p = torch.sigmoid(x).reshape(x.size(0), -1);
            org.bytedeco.pytorch.Tensor flat = y.reshape(x.size(0), -1);
            org.bytedeco.pytorch.Tensor overlap = p.mul(flat).sum(1).mul(new Scalar(2)).add(new Scalar(1));
            return overlap.div(p.sum(1).add(flat.sum(1)).add(new Scalar(1))).neg().add(new Scalar(1)).mean();
        }, Targets.BINARY, true);
        same("Loss.softMargin", Loss.softMargin(), (x, y) -> torch.soft_margin_loss(x, y), Targets.SIGNS, false);
        same("Loss.hinge", Loss.hinge(), (x, y) -> torch.relu(x.mul(y).neg().add(new Scalar(1))).mean(),
                Targets.SIGNS, true);
        same("Loss.squaredHinge", Loss.squaredHinge(), (x, y) -> torch.relu(x.mul(y).neg().add(new Scalar(1)))
                .pow(new Scalar(2)).mean(), Targets.SIGNS, true);
    }

    private static void numbers() {
        same("Loss.meanSquared", Loss.meanSquared(), (x, y) -> torch.mse_loss(x, y), Targets.REAL, true);
        same("Loss.meanAbsolute", Loss.meanAbsolute(), (x, y) -> torch.l1_loss(x, y), Targets.REAL, true);
        for (double delta : new double[] {0.7, 1, 50}) {
            same("Loss.huber", Loss.huber(delta), (x, y) -> torch.huber_loss(x, y, MEAN, delta), Targets.REAL, true);
        }
        same("Loss.poisson", Loss.poisson(), (x, y) -> torch.poisson_nll_loss(x, y, true, false, 1e-8, MEAN),
                Targets.COUNTS, true);
        for (double q : new double[] {0.1, 0.5, 0.9}) {
            same("Loss.quantile", Loss.quantile(q), (x, y) -> torch.max(y.sub(x).mul(new Scalar(q)), y.sub(x)
                    .mul(new Scalar(q - 1))).mean(), Targets.REAL, true);
        }
        CASES.add(new Case("Loss.gaussian", Loss.gaussian(), (x, y) -> {
            org.bytedeco.pytorch.Tensor variance = torch.exp(x.select(-1, 1));
            return torch.log(variance).add(x.select(-1, 0).sub(y).pow(new Scalar(2)).div(variance))
                    .mul(new Scalar(0.5)).mean();
        }, Targets.REAL, 2, false, new long[] {6, 3, 2}, new long[] {1, 1, 2}));
        same("loss.plus", Loss.meanSquared().times(0.3).plus(Loss.meanAbsolute()), (x, y) -> torch.mse_loss(x, y)
                .mul(new Scalar(0.3)).add(torch.l1_loss(x, y)), Targets.REAL, true);
        same("loss.times", Loss.meanSquared().times(-2), (x, y) -> torch.mse_loss(x, y).mul(new Scalar(-2)),
                Targets.REAL, true);
    }

    private static void rows() {
        CASES.add(new Case("Loss.cosine", Loss.cosine(), (x, y) -> torch.cosine_similarity(x, y, -1, 1e-8).neg()
                .add(new Scalar(1)).mean(), Targets.REAL, -1, true, new long[] {6, 5}, new long[] {1, 1},
                new long[] {2, 3, 4}));
        CASES.add(new Case("Loss.cosineEmbedding", Loss.cosineEmbedding(0.1), (x, y) -> torch.cosine_embedding_loss(
                x.select(1, 0), x.select(1, 1), y.select(1, 0), 0.1, MEAN), Targets.SIGNS, -1, true, pairs(2)));
        CASES.add(new Case("Loss.triplet", Loss.triplet(0.8), (x, y) -> torch.triplet_margin_loss(x.select(1, 0),
                x.select(1, 1), x.select(1, 2), 0.8, 2, 1e-6, false, MEAN), Targets.REAL, -1, true, pairs(3)));
        CASES.add(new Case("Loss.contrastive", Loss.contrastive(3), (x, y) -> {
            org.bytedeco.pytorch.Tensor d = torch.pairwise_distance(x.select(1, 0), x.select(1, 1));
            org.bytedeco.pytorch.Tensor apart = torch.relu(d.neg().add(new Scalar(3))).pow(new Scalar(2));
            org.bytedeco.pytorch.Tensor one = y.select(1, 0);
            return one.mul(d.pow(new Scalar(2))).add(one.neg().add(new Scalar(1)).mul(apart)).mean();
        }, Targets.BINARY, -1, true, pairs(2)));
    }

    private static long[][] pairs(int rows) {
        return new long[][] {{8, rows, 4}, {1, rows, 1}};
    }

    private static double[] targets(Case c, long... shape) {
        float[] normal = Inputs.normal(7, shape);
        double[] values = new double[normal.length];
        SplittableRandom random = new SplittableRandom(9);
        for (int i = 0; i < values.length; i++) {
            values[i] = switch (c.targets) {
                case REAL -> normal[i];
                case BINARY -> random.nextInt(2);
                case SIGNS -> 2 * random.nextInt(2) - 1;
                case CLASSES -> random.nextInt(CLASS_WEIGHTS.length);
                case COUNTS -> c.row.startsWith("Loss.crossEntropy") ? 0 : random.nextInt(6);
                case SHARES -> random.nextFloat();
            };
        }
        return values;
    }

    private static boolean indexed(Case c) {
        return c.targets == Targets.CLASSES || c.targets == Targets.COUNTS && c.without == 1;
    }

    /** Returns our target: of the first dimension only, where a loss has one for each pair of rows. */
    private static Tensor target(Case c, Tensor y) {
        boolean pairs = c.row.matches("Loss.(cosineEmbedding|triplet|contrastive)");
        return pairs ? y.narrow(1, 0, 1).flatten(1, -1).narrow(1, 0, 1).squeeze(1) : indexed(c) ? y.to(DType.I64) : y;
    }

    static Stream<Case> losses() {
        return CASES.stream();
    }

    /** The penalties, and what {@code rows} and {@code weighted} return, have tests of their own below. */
    @Test
    void comparesAllLosses() throws IOException {
        TreeSet<String> rows = new TreeSet<>(CASES.stream().map(Case::row).toList());
        rows.addAll(List.of("loss.rows", "loss.weighted", "loss.plusL1", "loss.plusL2", "Objective.of", "Loss.ctc",
                "Loss.ctc().blank", "Loss.ctc().zeroInfinity"));
        ParityPage.requireAll("Losses", rows);
    }

    @ParameterizedTest
    @MethodSource("losses")
    void computesAndDifferentiatesAsPyTorch(Case c) {
        compare(c, Inputs.normal(3, c.shapes[0]), 1, 1e-5, c.shapes[0]);
        for (long[] shape : c.shapes) {
            float[] input = Inputs.normal(3, shape);
            compare(c, input, 1, 1e-11, shape);
            if (c.robust) {
                compare(c, input, 0, 1e-11, shape);
                compare(c, input, 400, 1e-11, shape);
            }
        }
    }

    private static void compare(Case c, float[] input, double factor, double tolerance, long... shape) {
        long[] targetShape = c.target(shape);
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope()) {
            DType type = tolerance < 1e-9 ? DType.F64 : DType.F32;
            Tensor x = Tensor.of(input, shape).mul(factor).to(type);
            Tensor y = Tensor.of(targets(c, targetShape), targetShape);
            Tensor own = target(c, y);
            Tape tape = new Tape().watch(x);
            Tensor loss = tape.record(() -> c.ours.of(x, own.dtype() == DType.I64 ? own : own.to(type)));
            org.bytedeco.pytorch.Tensor theirX = Torch.tensor(x.toDoubles(), shape).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirY = Torch.tensor(y.toDoubles(), targetShape);
            theirY = indexed(c) ? theirY.toType(torch.ScalarType.Long) : theirY.dim() == 3 && own.rank() == 1
                    ? theirY.select(2, 0) : theirY;
            org.bytedeco.pytorch.Tensor theirLoss = c.theirs.apply(theirX, theirY);
            String what = Arrays.toString(shape) + " times " + factor;
            LayerParityTest.assertClose("loss " + what, loss.toDoubles(), Torch.doubles(theirLoss), tolerance);
            if (factor == 1 && type == DType.F64) {
                rows(c, x, own, theirX, theirY);
            }
            if (Double.isFinite(theirLoss.item_double())) {
                theirLoss.backward();
                LayerParityTest.assertClose("gradient " + what, tape.backward(loss).of(x).toDoubles(),
                        Torch.doubles(theirX.grad()), tolerance);
            }
        }
    }

    /** Compares losses of rows with PyTorch's of batches of one row, where NaN, for no target that counts, is 0. */
    private static void rows(Case c, Tensor x, Tensor y, org.bytedeco.pytorch.Tensor theirX,
            org.bytedeco.pytorch.Tensor theirY) {
        double[] rows = c.ours.rows(x, y).toDoubles();
        double[] theirs = new double[rows.length];
        double[] weights = new double[rows.length];
        double mean = 0;
        for (int i = 0; i < theirs.length; i++) {
            double row = c.theirs.apply(theirX.detach().narrow(0, i, 1), theirY.narrow(0, i, 1)).item_double();
            theirs[i] = Double.isNaN(row) ? 0 : row;
            weights[i] = i % 3;
            mean += weights[i] * theirs[i] / theirs.length;
        }
        LayerParityTest.assertClose("rows", rows, theirs, 1e-11);
        LayerParityTest.assertClose("weighted", c.ours.weighted(x, y, Tensor.of(weights)).toDoubles(),
                new double[] {mean}, 1e-11);
    }

    @Test
    void addsPenaltiesAsPyTorch() {
        try (Scope scope = Scope.open("test"); PointerScope theirs = new PointerScope();
                Linear model = Linear.of(4, 3, Generator.seeded(1))) {
            Loss penalised = Loss.meanSquared().plusL1(model, "weight"::equals, 0.3).plusL2(model, path -> true, 0.2);
            Tensor x = Generator.seeded(2).normal(5, 4);
            Tensor y = Generator.seeded(3).normal(5, 3);
            Tensor w = model.weight().value();
            Tensor b = model.bias().value();
            Tape tape = new Tape().watch(w, b);
            Tensor loss = tape.record(() -> penalised.of(model.forward(x), y));
            Gradients gradients = tape.backward(loss);
            org.bytedeco.pytorch.Tensor theirW = Torch.tensor(w.toDoubles(), 3, 4).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirB = Torch.tensor(b.toDoubles(), 3).set_requires_grad(true);
            org.bytedeco.pytorch.Tensor theirLoss = torch.mse_loss(torch.linear(Torch.tensor(x.toDoubles(), 5, 4),
                    theirW, new TensorOptional(theirB)), Torch.tensor(y.toDoubles(), 5, 3))
                    .add(theirW.abs().sum().mul(new Scalar(0.3))).add(theirW.mul(theirW).sum().add(theirB.mul(theirB)
                    .sum()).mul(new Scalar(0.2)));
            theirLoss.backward();
            assertThat(loss.toDoubles()).usingComparatorWithPrecision(1e-5).containsExactly(Torch.doubles(theirLoss));
            LayerParityTest.assertClose("weight", gradients.of(w).toDoubles(), Torch.doubles(theirW.grad()), 1e-5);
            LayerParityTest.assertClose("bias", gradients.of(b).toDoubles(), Torch.doubles(theirB.grad()), 1e-5);
        }
    }
}
