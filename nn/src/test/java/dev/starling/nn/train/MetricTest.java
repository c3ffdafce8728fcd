package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Gru;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.CrossEntropyLoss;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class MetricTest {
    private final Scope scope = Scope.open();
    private final Generator random = Generator.seeded(4);

    @AfterEach
    void close() {
        scope.close();
    }

    /** Returns logits whose largest element along {@code axis} is at the class that the target names. */
    private static Tensor certain(Tensor target, int classes, int axis) {
        return target.oneHot(classes).to(DType.F32).movedim(-1, axis);
    }

    private static Tensor next(Tensor labels) {
        return labels.add(1).remainder(Tensor.of(new long[] {4}));
    }

    private static double mean(Metric metric, Tensor logits, Tensor target) {
        return metric.sumOver(logits, target) / target.size(0);
    }

    @Test
    void theHeldOutLossDoesNotDependOnTheBatches() {
        Generator random = Generator.seeded(5);
        Linear model = Linear.of(4, 3, random);
        Tensor x = random.normal(23, 5, 4);
        Tensor y = random.integers(0, 3, 23, 5);
        CrossEntropyLoss last = Loss.crossEntropyOfLast();
        for (Loss loss : new Loss[] {last, last.ignoring(0), last.weights(0.1, 1, 7), last.ignoring(2).weights(0, 1, 7)
                .smoothing(0.1), last.ignoring(1).focal(2).times(3)}) {
            Double expected = null;
            for (int batch : new int[] {23, 1, 2, 10}) {
                try (DataLoader data = DataLoader.of(TensorDataset.of(x, y)).batchSize(batch).build()) {
                    Scores scores = Scores.evaluate(model, loss, data, Metrics.perplexity(0));
                    expected = expected == null ? Double.valueOf(scores.loss()) : expected;
                    assertThat(scores.loss()).isCloseTo(expected, within(1e-5 * expected));
                    assertThat(scores.examples()).isEqualTo(23);
                    if (loss.describe().contains("ignoring=0")) {
                        assertThat(Math.exp(scores.loss())).isCloseTo(scores.metric("perplexity"), within(1e-5));
                    }
                }
            }
        }
    }

    /** A mean over no targets is NaN. */
    @Test
    void aBatchWithoutTargetsThatCountDoesNotChangeTheHeldOutLoss() {
        Loss positive = new Loss() {
            @Override
            public Tensor of(Tensor result, Tensor target) {
                return target.maximum(target.zerosLike()).sum().div(target.gt(0).sum().to(DType.F32));
            }

            @Override
            public double divisor(Tensor result, Tensor target) {
                return target.gt(0).sum().item();
            }
        };
        Tensor y = Tensor.of(new float[] {4, 2, -1, -1}, 4, 1);
        try (DataLoader data = DataLoader.of(TensorDataset.of(y, y)).batchSize(2).build()) {
            assertThat(Scores.evaluate(Linear.of(1, 1, random), positive, data).loss()).isEqualTo(3);
        }
    }

    @Test
    void countsEachPositionAsAnAnswerWhereverTheClassesAre() {
        Tensor labels = random.integers(0, 4, 3, 5, 6);
        for (int axis : new int[] {1, 3}) {
            Tensor logits = certain(labels, 4, axis);
            assertThat(mean(Metric.accuracy(), logits, labels)).isEqualTo(1);
            assertThat(mean(Metric.accuracy(), logits, next(labels))).isZero();
            assertThat(mean(Metric.topAccuracy(4), logits, labels)).isEqualTo(1);
            // 2 of 5 rows of each example are wrong.
            Tensor some = labels.copy().narrow(1, 0, 3);
            Tensor half = Tensor.concat(1, some, next(labels.narrow(1, 3, 2)));
            assertThat(mean(Metric.accuracy(), logits, half)).isCloseTo(0.6, within(1e-9));
            assertThat(mean(Metric.accuracy(axis), logits, half)).isCloseTo(0.6, within(1e-9));
            assertThat(mean(Metric.topAccuracy(1), logits, half)).isCloseTo(0.6, within(1e-9));
        }
    }

    /** As targets of mixed examples, for which the loss is a cross-entropy too. */
    @Test
    void comparesWithTheClassOfTheLargestShare() {
        Tensor logits = Tensor.of(new float[] {2, 1, 0, 0, 5, 1, 1, 2, 3}, 3, 3);
        Tensor shares = Tensor.of(new float[] {0.7f, 0.3f, 0, 0.6f, 0.4f, 0, 0, 0.1f, 0.9f}, 3, 3);
        assertThat(mean(Metric.accuracy(), logits, shares)).isCloseTo(2 / 3.0, within(1e-9));
        assertThat(mean(Metric.accuracy(1), logits, shares)).isCloseTo(2 / 3.0, within(1e-9));
        assertThat(Loss.crossEntropy().of(logits, shares).item()).isPositive();
    }

    @Test
    void refusesShapesThatCannotBeMeant() {
        Tensor square = random.normal(2, 5, 5);
        Tensor labels = random.integers(0, 5, 2, 5);
        assertThatThrownBy(() -> Metric.accuracy().sumOver(square, labels)).hasMessageContaining("both fit")
                .hasMessageContaining("Metric.accuracy(1)");
        assertThatThrownBy(() -> Loss.crossEntropy().of(square, labels)).hasMessageContaining("both fit")
                .hasMessageContaining("classesIn(1)");
        assertThat(Metric.accuracy(1).sumOver(certain(labels, 5, 1), labels)).isCloseTo(2, within(1e-9));
        assertThat(Metric.accuracy(-1).sumOver(certain(labels, 5, 2), labels)).isCloseTo(2, within(1e-9));
        assertThat(Loss.crossEntropy().classesIn(-1).of(square, labels).item()).isCloseTo(
                Loss.crossEntropy().of(square.reshape(10, 5), labels.reshape(10)).item(), within(1e-6));
        assertThat(Loss.crossEntropy().classesIn(1).of(square, labels).item()).isCloseTo(
                Loss.crossEntropy().of(square.movedim(1, -1).reshape(10, 5), labels.reshape(10)).item(), within(1e-6));

        Tensor logits = random.normal(6, 3);
        Tensor classes = random.integers(0, 3, 6);
        for (Runnable call : new Runnable[] {() -> Metric.accuracy().sumOver(logits, classes.to(DType.F32)),
            () -> Loss.crossEntropy().of(logits, classes.to(DType.F32))}) {
            assertThatThrownBy(call::run).hasMessageContaining("integers").hasMessageContaining("to(DType.I64)");
        }
        for (Runnable call : new Runnable[] {() -> Metric.accuracy().sumOver(logits, classes.unsqueeze(1)),
            () -> Metric.accuracy(1).sumOver(logits, classes.unsqueeze(1)),
            () -> Loss.crossEntropy().of(logits, classes.unsqueeze(1))}) {
            assertThatThrownBy(call::run).hasMessageContaining("squeeze(-1)");
        }
        assertThatThrownBy(() -> Metric.accuracy().sumOver(logits, classes.oneHot(3).to(DType.I64)))
                .hasMessageContaining("argmax(1)");
        Tensor column = random.normal(6, 1);
        assertThatThrownBy(() -> Metric.binaryAccuracy().sumOver(column, column.squeeze(1)))
                .hasMessageContaining("same shape");
        assertThatThrownBy(() -> Metric.meanAbsoluteError().sumOver(column, column.squeeze(1)))
                .hasMessageContaining("same shape");
    }

    /** The optimiser has performed the step whose result the metric does not measure. */
    @Test
    void countsTheStepAfterWhichAMetricFails() {
        Metric failing = Metric.of("failing", (result, target) -> {
            throw new IllegalStateException("no value");
        });
        try (Linear model = Linear.of(3, 1, random); Optimizer adam = Adam.over(model).build();
                DataLoader data = DataLoader.of(TensorDataset.of(random.normal(4, 3), random.normal(4, 1)))
                        .batchSize(4).build()) {
            float[] before = model.weight().master().toFloats();
            Trainer trainer = Trainer.of(model, Loss.meanSquared(), adam).data(data).metrics(failing).build();
            assertThatThrownBy(trainer::run).hasStackTraceContaining("no value");
            assertThat(model.weight().master().toFloats()).isNotEqualTo(before);
            assertThat(adam.steps()).isEqualTo(1);
            assertThat(trainer.progress().step()).as("a further run continues behind the step").isEqualTo(1);
            assertThat(trainer.progress().batch()).isEqualTo(1);
        }
    }

    @Test
    void refusesTwoMetricsOfOneName() {
        assertThatThrownBy(() -> Task.of(x -> x, Loss.crossEntropy(), List.of(Metric.accuracy(),
                Metrics.accuracyIgnoring(0)))).isInstanceOf(TensorException.class)
                .hasMessageContaining("two metrics have the name accuracy");
    }

    /** The network must repeat its input; its head has the shape of Gpt2's, [N, L, V]. */
    @Test
    void trainsASequenceModelWithoutFurtherSettings() {
        Tensor tokens = random.integers(0, 7, 64, 5);
        try (Sequential model = Sequential.of(Embedding.of(7, 16, random), Gru.of(16, 16).build(random),
                Linear.of(16, 7, random)); Optimizer adam = Adam.over(model).rate(0.02).build();
                DataLoader data = DataLoader.of(TensorDataset.of(tokens, tokens)).batchSize(16).build()) {
            History history = Trainer.of(model, Loss.crossEntropy(), adam).data(data).heldOut(data).epochs(12)
                    .metrics(Metric.accuracy(), Metric.topAccuracy(2)).build().run();
            Scores last = history.last().heldOut().orElseThrow();
            assertThat(last.metric("accuracy")).isBetween(0.95, 1.0);
            assertThat(last.metric("top-2")).isBetween(last.metric("accuracy"), 1.0);
        }
    }
}
