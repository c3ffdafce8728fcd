package dev.starling.autograd;

import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Einsum;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Index;
import dev.starling.tensor.Losses;
import dev.starling.tensor.Losses.Reduce;
import dev.starling.tensor.Norms;
import dev.starling.tensor.Pools;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import java.util.function.Function;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Gradients through composed functions, first and second order, against finite differences. */
class CompositeGradientTest {
    private Generator generator;

    private void on(String device, Runnable body) {
        Device.with(Device.of(device, 0), () -> {
            try (Scope scope = Scope.open("test")) {
                generator = Generator.seeded(11);
                body.run();
            }
            return null;
        });
    }

    private Tensor x(long... shape) {
        return generator.normal(new Spec(DType.F64, Shape.of(shape), Device.current()), 0, 1);
    }

    private static void check(Function<Tensor[], Tensor> f, Tensor... inputs) {
        GradientCheck.check(f, inputs);
    }

    private static Tensor classes(long... classes) {
        return Tensor.of(classes);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void dense(String device) {
        on(device, () -> {
            check(t -> Functions.linear(t[0], t[1], t[2]), x(2, 3), x(4, 3), x(4));
            check(t -> Functions.linearRelu(t[0], t[1], t[2]), x(2, 2, 3), x(4, 3), x(4));
            check(t -> Functions.embedding(t[0], classes(2, 0, 2)), x(3, 4));
            check(t -> Functions.dropout(t[0], 0.4, Generator.seeded(5)).square(), x(6, 5));
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void convolutionsAndPools(String device) {
        on(device, () -> {
            check(t -> Convolutions.conv2d(t[0], t[1], t[2], 2, 1, 1, 2), x(1, 4, 5, 5), x(2, 2, 3, 3), x(2));
            check(t -> Convolutions.convTranspose1d(t[0], t[1], t[2], 3, 1, 2, 1, 1), x(2, 2, 3), x(2, 3, 4), x(3));
            check(t -> Convolutions.convTranspose2d(t[0], t[1], t[2], 2, 1, 1, 1, 2), x(1, 2, 3, 3), x(2, 2, 3, 3),
                    x(4));
            check(t -> Pools.maxPool2d(t[0], 3, 2, 1), x(1, 2, 5, 5));
            check(t -> Pools.avgPool2d(t[0], 2, 2, 1).square(), x(1, 2, 4, 4));
            check(t -> Pools.adaptiveAvgPool(t[0], 2, 3).square(), x(1, 2, 5, 4));
            check(t -> Pools.adaptiveMaxPool(t[0], 2, 3).square(), x(1, 2, 5, 4));
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void norms(String device) {
        on(device, () -> {
            check(t -> Norms.batchNorm(t[0], t[1], t[2], 1e-3).y(), x(3, 2, 4), x(2), x(2));
            check(t -> Norms.batchNorm(t[0], t[1], t[2], 1e-3).mean().square(), x(3, 2, 4), x(2), x(2));
            check(t -> Norms.batchNorm(t[0], null, null, 1e-3).inverseDeviation(), x(4, 3));
            check(t -> {
                Norms.Batch b = Norms.batchNorm(t[0], t[1], t[2], 1e-3);
                return Tensor.concat(0, b.y().reshape(24), b.mean().square(), b.variance(1e-3));
            }, x(3, 2, 4), x(2), x(2));
            check(t -> Norms.batchNorm(t[0], t[1], t[2].square(), t[3], t[4], 1e-3), x(3, 2, 4), x(2), x(2), x(2),
                    x(2));
            check(t -> Norms.layerNorm(t[0], t[1], t[2], 1e-3), x(3, 4), x(4), x(4));
            check(t -> Norms.groupNorm(t[0], 2, t[1], t[2], 1e-3), x(2, 4, 3), x(4), x(4));
            check(t -> Norms.rmsNorm(t[0], t[1], 1e-3), x(3, 2, 4), x(2, 4));
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void losses(String device) {
        on(device, () -> {
            check(t -> Losses.crossEntropy(t[0], classes(1, 0, 2)), x(3, 4));
            check(t -> Losses.crossEntropy(t[0], classes(1, -100, 2), Reduce.MEAN, 0.1, -100), x(3, 4));
            check(t -> Losses.crossEntropy(t[0], classes(1, 0, 2, 3).reshape(2, 2), Reduce.NONE, 0,
                    Losses.NONE_IGNORED), x(2, 4, 2));
            check(t -> Losses.crossEntropy(t[0], t[1].softmax(1), Reduce.MEAN, 0.1, -100), x(3, 4), x(3, 4));
            check(t -> Losses.nllLoss(t[0].logSoftmax(1), classes(1, -100, 2), Reduce.SUM, -100), x(3, 4));
            check(t -> t[0].logSumExp(false, 1).square(), x(3, 4));
            check(t -> Losses.binaryCrossEntropyWithLogits(t[0], t[1], Reduce.MEAN), x(3, 4), x(3, 4));
            check(t -> Losses.mseLoss(t[0], t[1], Reduce.MEAN), x(3, 4), x(3, 4));
            check(t -> Losses.l1Loss(t[0], t[1], Reduce.SUM), x(3, 4), x(3, 4));
            check(t -> Losses.huberLoss(t[0], t[1], Reduce.NONE, 0.7), x(3, 4), x(3, 4));
            check(t -> Losses.smoothL1Loss(t[0], t[1], Reduce.MEAN, 0.7), x(3, 4), x(3, 4));
            check(t -> Losses.klDiv(t[0], t[1].exp(), Reduce.MEAN), x(3, 4), x(3, 4));
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void attention(String device) {
        on(device, () -> {
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], true), x(2, 3, 4), x(2, 3, 4), x(2, 3, 2));
            Tensor mask = Tensor.of(new boolean[] {true, false, true, false, false, false}, 2, 3);
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], mask, false, 0, 0.5, null), x(2, 4),
                    x(2, 3, 4), x(2, 3, 2));
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], mask, true, 0.3, 0.5,
                    Generator.seeded(2)), x(2, 4), x(2, 3, 4), x(2, 3, 2));
            Tensor added = mask.where(Tensor.zeros(), Tensor.scalar(Double.NEGATIVE_INFINITY)).to(DType.F64);
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], added, false, 0, 0.5, null), x(2, 4),
                    x(2, 3, 4), x(2, 3, 2));
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], added, true, 0.3, 0.5,
                    Generator.seeded(2)), x(2, 4), x(2, 3, 4), x(2, 3, 2));
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], t[3], true, 0, 0.5, null), x(2, 4),
                    x(3, 4), x(3, 2), x(2, 3));
            check(t -> Functions.scaledDotProductAttention(t[0], t[1], t[2], t[3], true, 0.3, 0.5,
                    Generator.seeded(2)), x(2, 4), x(3, 4), x(3, 2), x(2, 3));
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void recurrences(String device) {
        on(device, () -> {
            Tensor lengths = Tensor.of(new long[] {3, 1});
            for (boolean reverse : new boolean[] {false, true}) {
                check(t -> all(Recurrences.lstm(t[0], t[1], t[2], weights(t, 3), reverse, null)), x(3, 2, 3), x(2, 2),
                        x(2, 2), x(8, 3), x(8, 2), x(8), x(8));
                check(t -> all(Recurrences.gru(t[0], t[1], weights(t, 2), reverse, null)), x(3, 2, 3), x(2, 2),
                        x(6, 3), x(6, 2), x(6), x(6));
                check(t -> all(Recurrences.rnn(t[0], t[1], weights(t, 2), false, reverse, null)), x(3, 2, 3), x(2, 2),
                        x(2, 3), x(2, 2), x(2), x(2));
                check(t -> all(Recurrences.rnn(t[0], t[1], weights(t, 2), true, reverse, lengths)), padded(),
                        x(2, 2), x(2, 3), x(2, 2), x(2), x(2));
                check(t -> all(Recurrences.lstm(t[0], t[1], t[2], weights(t, 3), reverse, lengths)), padded(),
                        x(2, 2), x(2, 2), x(8, 3), x(8, 2));
                check(t -> all(Recurrences.gru(t[0], null, weights(t, 1), reverse, lengths)), padded(), x(6, 3),
                        x(6, 2));
            }
        });
    }

    /** Returns inputs for sequences of 3 and 1 steps, followed by NaN. */
    private Tensor padded() {
        Tensor present = Tensor.of(new boolean[] {true, true, true, false, true, false}, 3, 2, 1);
        return present.where(x(3, 2, 3), Tensor.full(DType.F64, Double.NaN));
    }

    /** Returns the weights, and the biases if present, in {@code t} from index {@code from} on. */
    private static Recurrences.Weights weights(Tensor[] t, int from) {
        boolean biased = t.length > from + 2;
        return new Recurrences.Weights(t[from], t[from + 1], biased ? t[from + 2] : null, biased ? t[from + 3] : null);
    }

    /** Concatenates all results of a recurrent layer into one tensor. */
    private static Tensor all(Recurrences.States s) {
        Tensor y = s.y().flatten(0, 1);
        return s.c() == null ? Tensor.concat(0, y, s.h()) : Tensor.concat(0, y, s.h(), s.c());
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void indexing(String device) {
        on(device, () -> {
            check(t -> t[0].get("1:, None, ::-2").square(), x(3, 4));
            check(t -> t[0].get(Index.of(0, 2, 0), Index.all(), Index.of(1, 1, -2)).square(), x(3, 2, 4));
            check(t -> t[0].get(Index.mask(Tensor.of(new boolean[] {true, false, true}))).square(), x(3, 2));
            check(t -> t[0].maskedSelect(t[0].gt(0)).square(), x(3, 4));
            check(t -> Einsum.einsum("bij,jk,kk->bi", t[0], t[1], t[2]), x(2, 3, 2), x(2, 3), x(3, 3));
            check(t -> Einsum.einsum("...i,...i->...", t[0], t[1]), x(2, 3), x(3));
            check(t -> t[0].diagonal(1, 0, 1).square(), x(3, 4));
            check(t -> t[0].tile(2, 3).roll(0, 1).tril(0).square(), x(3, 2));
            check(t -> t[0].repeat(1, 3).square(), x(3, 2));
        });
    }
}
