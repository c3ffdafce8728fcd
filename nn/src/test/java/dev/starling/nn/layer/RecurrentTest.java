package dev.starling.nn.layer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.Summary;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

@Timeout(120)
class RecurrentTest {
    private final Generator g = Generator.seeded(1);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    static Stream<Recurrent.Builder> cells() {
        return Stream.of(Lstm.of(3, 5), Gru.of(3, 5), Rnn.of(3, 5), Rnn.rectified(3, 5));
    }

    private static void assertClose(Tensor actual, Tensor expected) {
        assertThat(actual.shape()).isEqualTo(expected.shape());
        assertThat(actual.toDoubles()).usingComparatorWithPrecision(1e-5).containsExactly(expected.toDoubles());
    }

    @Test
    void namesOrdersAndDrawsParametersAsPyTorchDoes() {
        Recurrent lstm = Lstm.of(3, 16).layers(2).bidirectional().build(g);
        Map<String, Parameter> all = lstm.parameters();
        assertThat(all.keySet()).containsExactly("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0",
                "weight_ih_l0_reverse", "weight_hh_l0_reverse", "bias_ih_l0_reverse", "bias_hh_l0_reverse",
                "weight_ih_l1", "weight_hh_l1", "bias_ih_l1", "bias_hh_l1",
                "weight_ih_l1_reverse", "weight_hh_l1_reverse", "bias_ih_l1_reverse", "bias_hh_l1_reverse");
        assertThat(all.get("weight_ih_l0").shape().dims()).containsExactly(64, 3);
        assertThat(all.get("weight_ih_l1_reverse").shape().dims()).containsExactly(64, 32);
        assertThat(all.get("weight_hh_l1").shape().dims()).containsExactly(64, 16);
        assertThat(all.get("bias_hh_l0").shape().dims()).containsExactly(64);
        for (Parameter p : all.values()) {
            assertThat(p.value().abs().max().item()).isBetween(0.2, 0.25);
        }
        assertThat(Gru.of(3, 5).withoutBias().build(g).parameters().keySet()).containsExactly("weight_ih_l0",
                "weight_hh_l0");
    }

    /** The expected result is composed of operations that the conformance suite defines. */
    @Test
    void stacksLayersAndConcatenatesDirections() {
        Recurrent gru = Gru.of(3, 5).layers(2).bidirectional().build(g);
        Tensor x = g.normal(2, 4, 3);
        Tensor y = x.transpose(0, 1);
        Tensor[] ends = new Tensor[4];
        for (int layer = 0; layer < 2; layer++) {
            Recurrences.States forward = Recurrences.gru(y, null, weights(gru, "_l" + layer), false, null);
            Recurrences.States backward = Recurrences.gru(y, null, weights(gru, "_l" + layer + "_reverse"), true, null);
            y = Tensor.concat(2, forward.y(), backward.y());
            ends[2 * layer] = forward.h();
            ends[2 * layer + 1] = backward.h();
        }
        Recurrent.Result result = gru.forward(x, null, null);
        assertClose(result.y(), y.transpose(0, 1));
        assertClose(result.state().h(), Tensor.stack(0, ends));
        assertClose(gru.forward(x), result.y());
    }

    private static Recurrences.Weights weights(Layer layer, String suffix) {
        Map<String, Parameter> all = layer.parameters();
        return new Recurrences.Weights(all.get("weight_ih" + suffix).value(), all.get("weight_hh" + suffix).value(),
                all.get("bias_ih" + suffix).value(), all.get("bias_hh" + suffix).value());
    }

    @ParameterizedTest
    @MethodSource("cells")
    void computesASequencePieceByPiece(Recurrent.Builder cell) {
        Recurrent layer = cell.layers(2).build(g);
        Tensor x = g.normal(4, 7, 3);
        Recurrent.Result whole = layer.forward(x, null, null);
        Recurrent.Result first = layer.forward(x.narrow(1, 0, 3), null, null);
        Recurrent.Result second = layer.forward(x.narrow(1, 3, 4), first.state(), null);
        assertClose(Tensor.concat(1, first.y(), second.y()), whole.y());
        assertClose(second.state().h(), whole.state().h());
        if (whole.state().c() != null) {
            assertClose(second.state().c(), whole.state().c());
        }
    }

    /** The expected result of each sequence is computed separately, cut to its length. */
    @ParameterizedTest
    @MethodSource("cells")
    void ignoresElementsAfterTheLengthOfASequence(Recurrent.Builder cell) {
        Recurrent layer = cell.layers(2).bidirectional().build(g);
        Recurrent summary = cell.last().build(Generator.seeded(1));
        summary.parameters().forEach((name, p) -> p.set(layer.parameters().get(name).value()));
        long[] lengths = {3, 7, 1, 5};
        Tensor x = g.normal(4, 7, 3);
        Tensor y = layer.forward(x, Tensor.of(lengths));
        Tensor last = summary.forward(x, Tensor.of(lengths));
        for (int n = 0; n < lengths.length; n++) {
            Tensor alone = x.narrow(0, n, 1).narrow(1, 0, lengths[n]);
            assertClose(y.narrow(0, n, 1).narrow(1, 0, lengths[n]), layer.forward(alone));
            assertThat(y.narrow(0, n, 1).narrow(1, lengths[n], 7 - lengths[n]).abs().sum().item()).isZero();
            assertClose(last.narrow(0, n, 1), summary.forward(alone));
        }
    }

    @Test
    void acceptsTimeAsTheFirstDimension() {
        Recurrent batchFirst = Lstm.of(3, 5).build(Generator.seeded(2));
        Recurrent timeFirst = Lstm.of(3, 5).timeFirst().build(Generator.seeded(2));
        Tensor x = g.normal(4, 7, 3);
        assertClose(timeFirst.forward(x.transpose(0, 1)), batchFirst.forward(x).transpose(0, 1));
    }

    @Test
    void appliesDropoutBetweenLayersOnlyInTraining() {
        Tensor x = g.normal(4, 7, 3);
        Recurrent two = Lstm.of(3, 5).layers(2).dropout(0.5).build(Generator.seeded(2));
        Recurrent one = Lstm.of(3, 5).dropout(0.5).build(Generator.seeded(2));
        assertThat(Mode.training(g, () -> one.forward(x)).toFloats()).isEqualTo(one.forward(x).toFloats());
        assertThat(Mode.training(g, () -> two.forward(x)).toFloats()).isNotEqualTo(two.forward(x).toFloats());
        assertThat(two.forward(x).toFloats()).isEqualTo(two.forward(x).toFloats());
    }

    @Test
    void countsProductsInASummary() {
        Summary summary = Summary.of(Sequential.of(Lstm.of(3, 5).last().build(g), Linear.of(5, 2, g)), 4, 7, 3);
        Summary.Row row = summary.rows().getFirst();
        assertThat(row.layer()).isEqualTo("Lstm");
        assertThat(row.output().dims()).containsExactly(4, 5);
        assertThat(row.parameters()).isEqualTo(20 * 3 + 20 * 5 + 20 + 20);
        assertThat(row.flops()).isEqualTo(2 * 4 * 7 * (20 * 3 + 20 * 5));
    }

    @Test
    void namesMistakesWithTheirRemedy() {
        Recurrent lstm = Lstm.of(3, 5).build(g);
        assertThatThrownBy(() -> lstm.forward(g.normal(4, 7, 2))).isInstanceOf(TensorException.class)
                .hasMessageContaining("[N, T, 3]");
        assertThatThrownBy(() -> lstm.forward(g.normal(7, 3))).isInstanceOf(TensorException.class)
                .hasMessageContaining("[N, T, 3]");
        Recurrent.State other = lstm.forward(g.normal(2, 7, 3), null, null).state();
        assertThatThrownBy(() -> lstm.forward(g.normal(4, 7, 3), other, null)).isInstanceOf(TensorException.class)
                .hasMessageContaining("h and c").hasMessageContaining("[1, 4, 5]");
        assertThatThrownBy(() -> lstm.forward(g.normal(4, 7, 3), Tensor.of(new long[] {1, 2})))
                .isInstanceOf(TensorException.class).hasMessageContaining("lengths must be [4]");
        assertThatThrownBy(() -> lstm.forward(g.normal(4, 7, 3), g.normal(4))).isInstanceOf(TensorException.class)
                .hasMessageContaining("i64 or i32");
        Recurrences.Weights gru = weights(Gru.of(3, 5).build(g), "_l0");
        assertThatThrownBy(() -> Recurrences.lstm(g.normal(7, 4, 3), null, null, gru, false, null))
                .isInstanceOf(TensorException.class).hasMessageContaining("[4·H, H]");
        assertThatThrownBy(() -> Recurrences.gru(g.normal(7, 3), null, gru, false, null))
                .isInstanceOf(TensorException.class).hasMessageContaining("[steps, batch, inputs]");
        assertThatThrownBy(() -> Recurrences.gru(g.normal(7, 4, 3), g.normal(4, 3), gru, false, null))
                .isInstanceOf(TensorException.class).hasMessageContaining("a state must be [4, 5]");
        for (Recurrent.Builder b : List.of(Lstm.of(3, 5), Gru.of(3, 5))) {
            assertThatThrownBy(() -> b.layers(0)).isInstanceOf(TensorException.class);
            assertThatThrownBy(() -> b.layers(1 << 30)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("1073741824");
            assertThatThrownBy(() -> b.dropout(1)).isInstanceOf(TensorException.class);
        }
        assertThatThrownBy(() -> Rnn.of(0, 5)).isInstanceOf(TensorException.class);
    }

    /**
     * The task is to name the first of ten symbols after the last one, so only the state can carry it there. A model
     * that reads only the last symbol is right in one of four cases.
     */
    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "BF16"})
    void remembersTheFirstSymbolInItsState(DType type) {
        Sequential model = Sequential.of(Embedding.of(4, 8, g), Gru.of(8, 16).last().build(g), Linear.of(16, 4, g));
        assertThat(accuracy(type, model, 250)).isGreaterThan(0.95);
    }

    @Test
    void remembersTheFirstSymbolInAnLstmButNotWithoutState() {
        assertThat(accuracy(DType.F32, Sequential.of(Embedding.of(4, 8, g), Lstm.of(8, 16).bidirectional().last()
                .build(g), Linear.of(32, 4, g)), 250)).isGreaterThan(0.95);
        assertThat(accuracy(DType.F32, Sequential.of(x -> x.narrow(1, 9, 1).squeeze(1), Embedding.of(4, 8, g),
                Linear.of(8, 4, g)), 100)).isCloseTo(0.25, within(0.1));
    }

    /** Trains a model to name the first symbol of sequences, and returns its accuracy on new sequences. */
    private double accuracy(DType type, Layer model, int steps) {
        try (Optimizer adam = Adam.over(model).rate(0.02).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), adam, g)
                        .precision(Precision.of(type)).captured()) {
            for (int i = 0; i < steps; i++) {
                try (Scope each = Scope.open()) {
                    Tensor x = g.integers(0, 4, 32, 10);
                    step.run(x, x.narrow(1, 0, 1).squeeze(1).contiguous());
                }
            }
            Tensor x = g.integers(0, 4, 500, 10);
            Tensor named = Precision.of(type).forward(model, x).argmax(1);
            return named.eq(x.narrow(1, 0, 1).squeeze(1)).sum().item() / 500;
        }
    }

    @Test
    void trainsInConstantMemory() {
        Sequential model = Sequential.of(Lstm.of(6, 12).layers(2).dropout(0.1).build(g), Gru.of(12, 8).bidirectional()
                .last().build(g), Linear.of(16, 3, g));
        try (Optimizer adam = Adam.over(model).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), adam, g)) {
            Tensor x = g.normal(8, 9, 6);
            Tensor target = g.integers(0, 3, 8);
            for (int i = 0; i < 5; i++) {
                step.run(x, target);
            }
            long live = Device.cpu().memory().live();
            long allocations = Device.cpu().memory().allocations();
            for (int i = 0; i < 50; i++) {
                step.run(x, target);
            }
            assertThat(Device.cpu().memory().live()).isLessThanOrEqualTo(live);
            assertThat(Device.cpu().memory().allocations()).isEqualTo(allocations);
        }
    }
}
