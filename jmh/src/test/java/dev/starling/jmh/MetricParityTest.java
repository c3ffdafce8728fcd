package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.train.ConfusionMatrix;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.MetricOfSums;
import dev.starling.nn.train.Metrics;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Metrics and what scikit-learn 1.9.1 computes for the same numbers: at once, from unequal batches, and added up over
 * the halves of two ranks; and NaN for results that have a NaN.
 */
class MetricParityTest {
    private static final int ROWS = 60;
    private static final int CLASSES = 5;
    private static final List<Case> CASES = List.of(
            new Case("Metric.binaryAccuracy", Kind.BINARY, Metric.binaryAccuracy(), 0.7),
            new Case("Metrics.precision", Kind.BINARY, Metrics.precision(), 0.6896551724137931),
            new Case("Metrics.recall", Kind.BINARY, Metrics.recall(), 0.6896551724137931),
            new Case("Metrics.f1", Kind.BINARY, Metrics.f1(), 0.6896551724137931),
            new Case("Metrics.rocAuc", Kind.BINARY, Metrics.rocAuc(), 0.7196885428253615),
            new Case("Metrics.prAuc", Kind.BINARY, Metrics.prAuc(), 0.67610134613101),
            // Logits between -14 and -10, as for rare events.
            new Case("Metrics.rocAuc", Kind.RARE, Metrics.rocAuc(), 0.7196885428253615),
            new Case("Metrics.prAuc", Kind.RARE, Metrics.prAuc(), 0.67610134613101),
            new Case("Metric.accuracy", Kind.CLASSES, Metric.accuracy(), 0.5166666666666667),
            new Case("Metric.accuracy", Kind.CLASSES, Metric.accuracy(1), 0.5166666666666667),
            new Case("Metric.topAccuracy", Kind.CLASSES, Metric.topAccuracy(2), 0.6833333333333333),
            new Case("metric.on", Kind.CLASSES, Metric.topAccuracy(CLASSES).on("kind"), 1),
            new Case("Metrics.accuracyIgnoring", Kind.CLASSES, Metrics.accuracyIgnoring(1), 0.4791666666666667),
            new Case("Metrics.accuracyIgnoring", Kind.CLASSES, Metrics.accuracyIgnoring(-100), 0.5166666666666667),
            // Class 4 does not occur, but is predicted.
            new Case("Metrics.precision", Kind.CLASSES, Metrics.precision(CLASSES), 0.53),
            new Case("Metrics.recall", Kind.CLASSES, Metrics.recall(CLASSES), 0.4041666666666666),
            new Case("Metrics.f1", Kind.CLASSES, Metrics.f1(CLASSES), 0.44535834535834534),
            new Case("Metrics.meanIou", Kind.CLASSES, Metrics.meanIou(CLASSES), 0.33362229102167185),
            new Case("Metrics.perplexity", Kind.CLASSES, Metrics.perplexity(), 7.552791659554434),
            new Case("Metrics.perplexity", Kind.CLASSES, Metrics.perplexity(1), 9.355871608418516),
            new Case("Metric.meanAbsoluteError", Kind.NUMBERS, Metric.meanAbsoluteError(), 1.6177083333333333),
            new Case("Metrics.rootMeanSquaredError", Kind.NUMBERS, Metrics.rootMeanSquaredError(), 1.9062926907787971),
            new Case("Metrics.rSquared", Kind.NUMBERS, Metrics.rSquared(), 0.1761272853270438),
            new Case("Metric.of", Kind.NUMBERS, Metric.of("largest", (x, y) -> x.sub(y).abs().sum().item()),
                    1.6177083333333333));

    private final Scope scope = Scope.open("test");

    private enum Kind { BINARY, RARE, CLASSES, NUMBERS }

    private record Case(String row, Kind kind, Metric metric, double expected) {
        Tensor result() {
            double[] values = new double[kind == Kind.CLASSES ? ROWS * CLASSES : ROWS];
            Arrays.setAll(values, i -> switch (kind) {
                case CLASSES -> ((i / CLASSES * 131 + i % CLASSES * 977 + 17) % 257 - 128) / 32.0;
                case RARE -> logit(i) / 4 - 12;
                case BINARY, NUMBERS -> logit(i);
            });
            return (kind == Kind.CLASSES ? Tensor.of(values, ROWS, CLASSES) : Tensor.of(values, ROWS, 1)).to(DType.F32);
        }

        Tensor target() {
            if (kind == Kind.CLASSES) {
                long[] best = result().argmax(1).toLongs();
                long[] classes = new long[ROWS];
                Arrays.setAll(classes, i -> i % 2 == 0 ? best[i] % 4 : (i * i + i / 3) % 4);
                return Tensor.of(classes);
            }
            double[] values = new double[ROWS];
            Arrays.setAll(values, i -> kind == Kind.NUMBERS ? logit(i) * 0.5 + (i * 53 % 19 - 9) / 8.0
                    : (i * 31 + 7) % 10 < (logit(i) > 0 ? 7 : 3) ? 1 : 0);
            return Tensor.of(values, ROWS, 1).to(DType.F32);
        }
    }

    private static double logit(int i) {
        return ((i * 7919 + 13) % 211 - 105) / 16.0;
    }

    @AfterEach
    void close() {
        scope.close();
    }

    static Stream<Case> metrics() {
        return CASES.stream();
    }

    @Test
    void comparesAllMetrics() throws IOException {
        TreeSet<String> rows = new TreeSet<>(CASES.stream().map(Case::row).toList());
        rows.add("ConfusionMatrix.evaluate");
        ParityPage.requireAll("Metrics", rows);
    }

    /** Returns a metric of rows that come in batches which end at the given rows. */
    private static double value(Metric metric, Tensor result, Tensor target, int... ends) {
        double[] sums = new double[metric instanceof MetricOfSums several ? several.size() : 1];
        int start = 0;
        for (int end : ends) {
            Tensor x = result.narrow(0, start, end - start);
            Tensor y = target.narrow(0, start, end - start);
            if (metric instanceof MetricOfSums several) {
                several.addTo(sums, x, y);
            } else {
                sums[0] += metric.sumOver(x, y);
            }
            start = end;
        }
        return metric instanceof MetricOfSums several ? several.value(sums) : sums[0] / result.size(0);
    }

    @ParameterizedTest
    @MethodSource("metrics")
    void measuresAsScikitLearn(Case c) {
        Tensor x = c.result();
        Tensor y = c.target();
        assertThat(value(c.metric, x, y, ROWS)).isCloseTo(c.expected, within(1e-6));
        assertThat(value(c.metric, x, y, 1, 8, 40, ROWS)).isCloseTo(c.expected, within(1e-6));
        assertThat(value(c.metric, x.to(DType.F64), c.kind == Kind.CLASSES ? y : y.to(DType.F64), ROWS))
                .isCloseTo(c.expected, within(1e-6));
        if (c.metric instanceof MetricOfSums several) {
            double[] first = new double[several.size()];
            double[] second = new double[several.size()];
            several.addTo(first, x.narrow(0, 0, 23), y.narrow(0, 0, 23));
            several.addTo(second, x.narrow(0, 23, ROWS - 23), y.narrow(0, 23, ROWS - 23));
            Arrays.setAll(first, i -> first[i] + second[i]);
            assertThat(several.value(first)).isCloseTo(c.expected, within(1e-6));
        }
    }

    /** One NaN among all results spoils the metric, also where other batches have none. */
    @ParameterizedTest
    @MethodSource("metrics")
    void isNotANumberForResultsThatAreNone(Case c) {
        float[] values = c.result().toFloats();
        values[values.length / 3] = Float.NaN;
        Tensor x = Tensor.of(values, c.result().shape().dims());
        assertThat(value(c.metric, x, c.target(), 7, 40, ROWS)).isNaN();
    }

    @Test
    void countsClassesAsScikitLearn() {
        Case c = new Case("", Kind.CLASSES, Metric.accuracy(), 0);
        try (DataLoader data = DataLoader.of(TensorDataset.of(c.result(), c.target())).batchSize(7).workers(0)
                .build()) {
            ConfusionMatrix matrix = ConfusionMatrix.evaluate(x -> x, data, CLASSES);
            assertThat(matrix.accuracy()).isCloseTo(0.5166666666666667, within(1e-12));
            assertThat(matrix.count(3, 0) + matrix.count(3, 1) + matrix.count(3, 2) + matrix.count(3, 3)
                    + matrix.count(3, 4)).isEqualTo(16);
            assertThat(matrix.recall(4)).isNaN();
            assertThat(matrix.toString()).containsPattern("mean +0.5300  0.4042  0.4454 +60")
                    .containsPattern("weighted mean +0.7244  0.5167  0.5866 +60").contains("accuracy 51.67 %");
            assertThatThrownBy(() -> ConfusionMatrix.evaluate(x -> x.div(0).mul(0), data, CLASSES))
                    .isInstanceOf(TensorException.class).hasMessageContaining("NaN");
        }
    }
}
