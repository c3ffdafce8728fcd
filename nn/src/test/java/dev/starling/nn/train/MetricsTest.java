package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Identity;
import dev.starling.nn.loss.Loss;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.data.Offset;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Metrics of several sums against their definitions, over batches of unequal size and over two ranks. */
class MetricsTest {
    private static final Offset<Double> CLOSE = within(1e-6);
    private static final int ROWS = 203;

    private final Scope scope = Scope.open();
    private final Generator random = Generator.seeded(4);

    @AfterEach
    void close() {
        scope.close();
    }

    /** Returns the metric over all rows, as an evaluation with batches of unequal size computes it. */
    private static double evaluate(Metric metric, Tensor result, Tensor target) {
        try (DataLoader data = DataLoader.of(TensorDataset.of(result, target)).batchSize(40).workers(0).build()) {
            return Scores.evaluate(x -> x, (x, y) -> Tensor.zeros(), data, metric).metric(metric.name());
        }
    }

    @Test
    void countsBinaryAnswersAsDefined() {
        float[] logits = random.normal(ROWS).toFloats();
        float[] labels = random.integers(0, 2, ROWS).to(DType.F32).toFloats();
        double tp = 0;
        double fp = 0;
        double fn = 0;
        for (int i = 0; i < ROWS; i++) {
            tp += logits[i] > 0 && labels[i] == 1 ? 1 : 0;
            fp += logits[i] > 0 && labels[i] == 0 ? 1 : 0;
            fn += logits[i] <= 0 && labels[i] == 1 ? 1 : 0;
        }
        Tensor x = Tensor.of(logits, ROWS, 1);
        Tensor y = Tensor.of(labels, ROWS, 1);
        assertThat(evaluate(Metrics.precision(), x, y)).isCloseTo(tp / (tp + fp), CLOSE);
        assertThat(evaluate(Metrics.recall(), x, y)).isCloseTo(tp / (tp + fn), CLOSE);
        assertThat(evaluate(Metrics.f1(), x, y)).isCloseTo(tp / (tp + (fp + fn) / 2), CLOSE);
        assertThatThrownBy(() -> evaluate(Metrics.f1(), x, y.squeeze(1))).isInstanceOf(TensorException.class)
                .hasMessageContaining("same shape");
    }

    /** All pairs are compared; half of them have equal logits. */
    @Test
    void measuresTheAreasUnderCurves() {
        double[] logits = random.normal(ROWS).mul(4).round().mul(0.25).toDoubles();
        double[] labels = new double[ROWS];
        double[] noise = random.normal(ROWS).toDoubles();
        for (int i = 0; i < ROWS; i++) {
            labels[i] = logits[i] + noise[i] > 0.5 ? 1 : 0;
        }
        double ordered = 0;
        double pairs = 0;
        double precisions = 0;
        double positives = 0;
        for (int i = 0; i < ROWS; i++) {
            double found = 0;
            double predicted = 0;
            for (int k = 0; k < ROWS; k++) {
                if (labels[i] == 1 && labels[k] == 0) {
                    pairs++;
                    ordered += logits[i] > logits[k] ? 1 : logits[i] == logits[k] ? 0.5 : 0;
                }
                found += logits[k] >= logits[i] ? labels[k] : 0;
                predicted += logits[k] >= logits[i] ? 1 : 0;
            }
            positives += labels[i];
            precisions += labels[i] * found / predicted;
        }
        Tensor x = Tensor.of(logits, ROWS).to(DType.F32);
        Tensor y = Tensor.of(labels, ROWS).to(DType.F32);
        assertThat(evaluate(Metrics.rocAuc(), x, y)).isCloseTo(ordered / pairs, CLOSE);
        assertThat(evaluate(Metrics.prAuc(), x, y)).isCloseTo(precisions / positives, CLOSE);
    }

    @Test
    void measuresNumbersAsDefined() {
        Tensor x = random.normal(ROWS, 2);
        Tensor y = x.add(random.normal(ROWS, 2).mul(0.5)).add(3);
        double squares = x.sub(y).square().mean().item();
        double variance = y.sub(y.mean()).square().mean().item();
        assertThat(evaluate(Metrics.rootMeanSquaredError(), x, y)).isCloseTo(Math.sqrt(squares), within(1e-5));
        assertThat(evaluate(Metrics.rSquared(), x, y)).isCloseTo(1 - squares / variance, within(1e-4));
        Tensor logits = random.normal(ROWS, 7, 5);
        Tensor tokens = random.integers(0, 5, ROWS, 7);
        assertThat(evaluate(Metrics.perplexity(), logits, tokens))
                .isCloseTo(Math.exp(Loss.crossEntropy().of(logits, tokens).item()), within(1e-4));
        assertThat(evaluate(Metrics.perplexity(), logits, tokens.to(DType.I32)))
                .isCloseTo(evaluate(Metrics.perplexity(), logits, tokens), CLOSE);
        assertThat(evaluate(Metrics.perplexity(2), logits, tokens))
                .isCloseTo(Math.exp(Loss.crossEntropy().ignoring(2).of(logits, tokens).item()), within(1e-4));
    }

    @Test
    void hasNoCoefficientOfDeterminationWhereRoundingHidesTheDeviation() {
        for (double level : new double[] {0, 0.1, 0.3, 1000.1}) {
            Tensor y = Tensor.full(DType.F64, level, ROWS);
            assertThat(evaluate(Metrics.rSquared(), y.add(random.normal(ROWS)), y)).as("all %s", level).isNaN();
            assertThat(evaluate(Metrics.rSquared(), y, y)).as("all %s", level).isNaN();
        }
        Tensor noise = random.normal(ROWS).to(DType.F64);
        Tensor error = random.normal(ROWS).to(DType.F64).mul(0.3);
        double exact = evaluate(Metrics.rSquared(), noise.add(error), noise);
        Tensor far = noise.add(1e6);
        assertThat(evaluate(Metrics.rSquared(), far.add(error), far)).isCloseTo(exact, within(1e-3));
        Tensor farther = noise.add(1e8);
        assertThat(evaluate(Metrics.rSquared(), farther.add(error), farther)).isNaN();
    }

    @Test
    void isNotANumberIfATargetIsNone() {
        Tensor x = Tensor.of(new float[] {1, -1, 2, -2, 3, -3}, 3, 2);
        Tensor y = Tensor.of(new float[] {1, 0, Float.NaN, 0, 1, 0}, 3, 2);
        for (Metric metric : List.of(Metric.accuracy(), Metric.accuracy(1), Metric.binaryAccuracy(),
                Metric.meanAbsoluteError(), Metrics.precision(), Metrics.recall(), Metrics.f1(), Metrics.rocAuc(),
                Metrics.prAuc(), Metrics.rootMeanSquaredError(), Metrics.rSquared())) {
            assertThat(evaluate(metric, x, y)).as(metric.name()).isNaN();
        }
    }

    /** Actual classes 0, 0, 0, 1, 1 and 2 were classified as 0, 0, 1, 1, 0 and 0; class 3 does not occur. */
    @Test
    void printsAndSummarisesAConfusionMatrix() {
        Tensor actual = Tensor.of(new long[] {0, 0, 0, 1, 1, 2});
        Tensor logits = Tensor.of(new long[] {0, 0, 1, 1, 0, 0}).oneHot(4).to(DType.F32);
        ConfusionMatrix matrix;
        try (DataLoader data = DataLoader.of(TensorDataset.of(logits, actual)).batchSize(4).workers(0).build()) {
            matrix = ConfusionMatrix.evaluate(x -> x, data, 4);
        }
        assertThat(matrix.count(0, 0)).isEqualTo(2);
        assertThat(matrix.count(2, 0)).isEqualTo(1);
        assertThat(matrix.accuracy()).isCloseTo(0.5, CLOSE);
        assertThat(matrix.precision(0)).isCloseTo(0.5, CLOSE);
        assertThat(matrix.recall(0)).isCloseTo(2 / 3.0, CLOSE);
        assertThat(matrix.f1(1)).isCloseTo(0.5, CLOSE);
        assertThat(matrix.iou(0)).isCloseTo(2 / 5.0, CLOSE);
        assertThat(matrix.precision(3)).isNaN();
        assertThat(matrix.toString().lines().map(String::strip)).hasSize(8).satisfies(lines -> {
            assertThat(lines.get(1)).matches("0 +2 +1 +0 +0 +0.5000 +0.6667 +0.5714 +3");
            assertThat(lines.get(5)).matches("mean +0.3333 +0.3889 +0.3571 +6");
            assertThat(lines.get(6)).matches("weighted mean +0.4167 +0.5000 +0.4524 +6");
            assertThat(lines.get(7)).isEqualTo("accuracy 50.00 %");
        });
        assertThat(matrix.named(List.of("cat", "dog", "cow", "<ant>")).toString()).contains("as dog").contains("\ncow");
        assertThatThrownBy(() -> matrix.named(List.of("cat"))).hasMessageContaining("1 names for 4 classes");
        assertThat(evaluate(Metrics.precision(4), logits, actual)).isCloseTo((0.5 + 0.5 + 0) / 3, CLOSE);
        assertThat(evaluate(Metrics.recall(4), logits, actual)).isCloseTo((2 / 3.0 + 0.5 + 0) / 3, CLOSE);
        assertThat(evaluate(Metrics.f1(4), logits, actual)).isCloseTo((4 / 7.0 + 0.5 + 0) / 3, CLOSE);
        assertThat(evaluate(Metrics.meanIou(4), logits, actual)).isCloseTo((2 / 5.0 + 1 / 3.0 + 0) / 3, CLOSE);
        assertThatThrownBy(() -> evaluate(Metrics.f1(3), logits, actual)).hasMessageContaining("4 classes");
    }

    /** Half of the rows on each of two ranks; the sums add up to the value over all rows. */
    @Test
    void addsUpOverRanksAndThroughCheckpoints() {
        Tensor x = random.normal(ROWS, 1);
        Tensor y = random.integers(0, 2, ROWS, 1).to(DType.F32);
        List<Metric> metrics = List.of(Metrics.f1(), Metric.binaryAccuracy(), Metrics.rocAuc());
        double[] total = new double[3 + 3 + 1 + 2 * 8192];
        for (int rank = 0; rank < 2; rank++) {
            Averages averages = Task.of(new Identity(), Loss.binaryCrossEntropy(), metrics).averages();
            long rows = rank == 0 ? 150 : ROWS - 150;
            averages.add(rank, new BatchResult(x, new Tensor[0], new Tensor[] {x.narrow(0, rank * 150L, rows)},
                    new Tensor[] {y.narrow(0, rank * 150L, rows)}, rows));
            averages.endStep(true);
            double[] sums = averages.sums();
            for (int i = 0; i < total.length; i++) {
                total[i] += sums[i];
            }
        }
        Map<String, String> notes = new LinkedHashMap<>();
        Averages all = new Averages(metrics);
        all.save(notes, total);
        all.restoring(notes).run();
        assertThat(all.sums()).isEqualTo(total);
        Scores scores = all.scores(total);
        assertThat(scores.examples()).isEqualTo(ROWS);
        for (Metric metric : metrics) {
            assertThat(scores.metric(metric.name())).isCloseTo(evaluate(metric, x, y), CLOSE);
        }
        assertThat(scores.toString()).containsPattern("F1 \\d\\d\\.\\d\\d %");
    }

    @Test
    void aConfusionMatrixLeavesOutWhatIsMarked() {
        Tensor logits = Tensor.of(new long[] {0, 1, 1}).oneHot(2).to(DType.F32);
        try (DataLoader ignored = DataLoader.of(TensorDataset.of(logits, Tensor.of(new long[] {0, -100, 1}))).build();
                DataLoader mask = DataLoader.of(TensorDataset.of(logits, Tensor.of(new long[] {0, 255, 1}))).build();
                DataLoader wrong = DataLoader.of(TensorDataset.of(logits, Tensor.of(new long[] {0, 2, 1}))).build()) {
            assertThat(ConfusionMatrix.evaluate(x -> x, ignored, 2).accuracy()).isEqualTo(1);
            assertThat(ConfusionMatrix.evaluate(x -> x, mask, 2).accuracy()).isEqualTo(1);
            assertThat(ConfusionMatrix.evaluate(x -> x, mask, 256).accuracy()).isLessThan(1);
            assertThatThrownBy(() -> ConfusionMatrix.evaluate(x -> x, wrong, 2)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("got a target of class 2");
        }
    }

    /** The name of a metric may depend on the stage of a run, as that of greedy training does. */
    @Test
    void restoresTheSumsOfAMetricThatHadAnotherName() {
        String[] name = {"error of machine 2"};
        Averages averages = new Averages(List.of(new Metric() {
            @Override
            public String name() {
                return name[0];
            }

            @Override
            public double sumOver(Tensor result, Tensor target) {
                return 0;
            }
        }));
        Map<String, String> notes = new LinkedHashMap<>();
        averages.save(notes, new double[4]);
        assertThat(notes).as("an epoch that begins").isEmpty();
        averages.save(notes, new double[] {4, 2, 5, 3});
        name[0] = "error of machine 1";
        averages.restoring(notes).run();
        assertThat(averages.sums()).containsExactly(4, 2, 5, 3);
        notes.remove("sum.weight");
        averages.restoring(notes).run();
        assertThat(averages.sums()).as("notes without it").containsExactly(4, 2, 4, 3);
    }

    @Test
    void restoresTheSumsOfLossesThatAFormerVersionSaved() {
        Averages averages = new Averages(null, List.of(Metric.accuracy(), Metric.accuracy(), Metric.accuracy()), 2,
                new int[3]);
        averages.restoring(Map.of("sum.examples", "4.0", "sum.0", "2.0", "sum.1", "6.0", "sum.2", "3.0")).run();
        assertThat(averages.sums()).containsExactly(4, 0, 4, 2, 4, 6, 4, 3);
        averages.restoring(Map.of("sum.examples", "4.0", "sum.0", "2.0 5.0", "sum.2", "3.0")).run();
        assertThat(averages.sums()).as("one loss of this version").containsExactly(4, 0, 4, 2, 5, 0, 0, 3);
    }
}
