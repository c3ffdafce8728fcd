package dev.starling.nn.layer;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Layers;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Attention and what surrounds it, by closed forms and by equal computations in other forms. */
class TransformerTest {
    private final Generator g = Generator.seeded(5);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static void assertSame(Tensor actual, Tensor expected) {
        assertThat(actual.shape()).isEqualTo(expected.shape());
        assertThat(actual.toFloats()).usingComparatorWithPrecision(1e-5f).containsExactly(expected.toFloats());
    }

    /** Text that is computed in pieces has the same results as the whole text. */
    @ParameterizedTest
    @CsvSource({"4,4,false", "4,2,true", "4,1,false"})
    void computesTextInPieces(int heads, int keyHeads, boolean rotary) {
        MultiHeadAttention plain = MultiHeadAttention.grouped(16, heads, keyHeads, g).causal();
        try (MultiHeadAttention layer = rotary ? plain.rotary(100) : plain; KeyValueCache cache = KeyValueCache.of(9)) {
            for (int text = 0; text < 2; text++) {
                Tensor x = g.normal(2, 8, 16);
                Tensor whole = layer.forward(x);
                Tensor pieces = Tensor.concat(1, layer.forward(x.narrow(1, 0, 3), cache),
                        layer.forward(x.narrow(1, 3, 1), cache), layer.forward(x.narrow(1, 4, 4), cache));
                assertSame(pieces, whole);
                assertThat(cache.length()).isEqualTo(8);
                assertThatThrownBy(() -> layer.forward(x, cache)).isInstanceOf(TensorException.class)
                        .hasMessageContaining("room for 9 positions and holds 8");
                assertThatThrownBy(() -> layer.forward(x.narrow(0, 0, 1).narrow(1, 0, 1), cache))
                        .hasMessageContaining("another batch");
                cache.clear();
            }
            assertSame(layer.forward(g.normal(1, 4, 16), cache).sum().mul(0), Tensor.scalar(0));
        }
    }

    /** Grouped attention is full attention in which heads of keys and values have equal weights. */
    @Test
    void sharesHeadsOfKeys() {
        try (MultiHeadAttention grouped = MultiHeadAttention.grouped(8, 4, 2, g);
                MultiHeadAttention full = MultiHeadAttention.of(8, 4, g)) {
            for (String name : new String[] {"weight", "bias"}) {
                Tensor[] rows = grouped.state().get("project." + name).value().split(0, 2);
                full.state().get("project." + name).set(Tensor.concat(0, rows[0], rows[1], rows[2], rows[3], rows[4],
                        rows[4], rows[5], rows[5], rows[6], rows[6], rows[7], rows[7]));
                full.state().get("out." + name).set(grouped.state().get("out." + name).value());
            }
            Tensor x = g.normal(2, 5, 8);
            assertSame(grouped.forward(x), full.forward(x));
            assertThat(grouped.state().get("project.weight").shape().dims()).containsExactly(16, 8);
            assertThatThrownBy(() -> MultiHeadAttention.grouped(8, 4, 3, g)).hasMessageContaining("divide 4");
        }
    }

    @Test
    void attendsToAnotherSequence() {
        try (MultiHeadAttention layer = MultiHeadAttention.of(8, 2, g)) {
            Tensor x = g.normal(2, 5, 8);
            assertSame(layer.cross(x, x, null), layer.forward(x));
            Tensor memory = g.normal(2, 7, 8);
            Tensor mask = Tensor.arange(7).lt(4);
            assertSame(layer.cross(x, memory, mask), layer.cross(x, memory.narrow(1, 0, 4), null));
            assertThatThrownBy(() -> layer.cross(x, g.normal(2, 7, 6), null)).hasMessageContaining("[N, L, 8]");
        }
    }

    /** A pair of elements, as a complex number, is multiplied by {@code e^(i·p·base^(-2i/E))}. */
    @Test
    void rotatesPairsByTheirPositions() {
        RotaryPositions rotary = new RotaryPositions(50);
        Tensor x = g.normal(2, 3, 4);
        float[] in = x.toFloats();
        float[] out = rotary.forward(x, 2).toFloats();
        for (int row = 0; row < 6; row++) {
            for (int i = 0; i < 2; i++) {
                double angle = (row % 3 + 2) * Math.pow(50, -2.0 * i / 4);
                double a = in[row * 4 + i];
                double b = in[row * 4 + i + 2];
                assertThat(out[row * 4 + i]).isCloseTo((float) (a * Math.cos(angle) - b * Math.sin(angle)),
                        within(1e-5f));
                assertThat(out[row * 4 + i + 2]).isCloseTo((float) (b * Math.cos(angle) + a * Math.sin(angle)),
                        within(1e-5f));
            }
        }
        // Products depend on distances only.
        Tensor near = rotary.forward(x).matmul(rotary.forward(x).transpose(1, 2));
        assertSame(rotary.forward(x, 7).matmul(rotary.forward(x, 7).transpose(1, 2)), near);
        assertThatThrownBy(() -> rotary.forward(Tensor.zeros(3, 5))).hasMessageContaining("even E");
    }

    @Test
    void addsLearnedPositions() {
        try (LearnedPositions positions = LearnedPositions.of(5, 3, g)) {
            Tensor x = g.normal(2, 3, 3);
            Tensor table = positions.state().get("weight").value();
            assertSame(positions.forward(x, 2), x.add(table.narrow(0, 2, 3)));
            assertThatThrownBy(() -> positions.forward(x, 3)).hasMessageContaining("from 0 to 4");
        }
    }

    /** An encoder layer with causal attention computes text in pieces, too. */
    @Test
    void computesBlocksInPieces() {
        try (TransformerEncoderLayer block = TransformerEncoderLayer.of(MultiHeadAttention.of(8, 2, g).causal(), 8, 12,
                new Gelu(), g).normFirst(); KeyValueCache cache = KeyValueCache.of(6)) {
            Tensor x = g.normal(2, 6, 8);
            assertSame(Tensor.concat(1, block.forward(x.narrow(1, 0, 5), cache), block.forward(x.narrow(1, 5, 1),
                    cache)), block.forward(x));
            Tensor mask = Tensor.arange(6).unsqueeze(1).ge(Tensor.arange(6));
            try (TransformerEncoderLayer other = TransformerEncoderLayer.of(8, 2, 12, g)) {
                assertSame(other.forward(x, mask).narrow(1, 0, 1), other.forward(x.narrow(1, 0, 1)));
            }
        }
    }

    /** Layers inside of blocks are found by their paths; another layer in place of a projection computes the same. */
    @Test
    void exchangesLayersOfBlocks() {
        try (TransformerEncoderLayer encoder = TransformerEncoderLayer.of(8, 2, 12, g);
                TransformerDecoderLayer decoder = TransformerDecoderLayer.of(8, 2, 12, g);
                Linear other = Linear.of(8, 12, g)) {
            TransformerEncoderLayer changed = Layers.replace(encoder, "perceptron.first", other);
            assertThat(changed.state().get("perceptron.first.weight")).isSameAs(other.weight());
            assertThat(changed.state().get("attention.out.weight")).isSameAs(encoder.state()
                    .get("attention.out.weight"));
            Layer project = (Layer) Layers.find(decoder, "cross.project");
            Layer around = project::apply;
            Tensor x = g.normal(2, 4, 8);
            Tensor memory = g.normal(2, 3, 8);
            assertSame(Layers.replace(decoder, "cross.project", around).forward(x, memory, null),
                    decoder.forward(x, memory, null));
            assertThatThrownBy(() -> Layers.replace(encoder, "attention", other)).isInstanceOf(TensorException.class);
        }
    }

    @Test
    void dropsInTrainingOnly() {
        try (TransformerDecoderLayer plain = TransformerDecoderLayer.of(8, 2, 12, g)) {
            TransformerDecoderLayer layer = plain.dropout(0.5);
            Tensor x = g.normal(2, 4, 8);
            Tensor memory = g.normal(2, 3, 8);
            assertSame(layer.forward(x, memory, null), plain.forward(x, memory, null));
            float[] trained = Mode.training(Generator.seeded(1), () -> layer.forward(x, memory, null)).toFloats();
            assertThat(trained).isNotEqualTo(plain.forward(x, memory, null).toFloats());
        }
    }

    /** A step of a cell is a sequence of one step of the recurrent layer with the same weights. */
    @ParameterizedTest
    @CsvSource({"lstm", "gru", "rnn"})
    void computesOneStepOfARecurrentLayer(String name) {
        try (RecurrentCell cell = switch (name) {
            case "lstm" -> RecurrentCell.lstm(3, 4, g);
            case "gru" -> RecurrentCell.gru(3, 4, g);
            default -> RecurrentCell.rnn(3, 4, g);
        }; Recurrent layer = (switch (name) {
            case "lstm" -> Lstm.of(3, 4);
            case "gru" -> Gru.of(3, 4);
            default -> Rnn.of(3, 4);
        }).build(g)) {
            cell.state().forEach((path, p) -> layer.state().get(path + "_l0").set(p.value()));
            Tensor x = g.normal(2, 5, 3);
            Recurrent.State state = null;
            for (int t = 0; t < 5; t++) {
                state = cell.forward(x.narrow(1, t, 1).squeeze(1), state);
                assertSame(state.h(), layer.forward(x).narrow(1, t, 1).squeeze(1));
            }
            assertThat(state.c() == null).isEqualTo(!name.equals("lstm"));
            assertThatThrownBy(() -> cell.forward(x)).hasMessageContaining("[N, 3]");
            // As the layer, a cell converts a state to the type of x.
            Recurrent.State wide = state;
            Tensor narrow = g.normal(2, 3).to(DType.BF16);
            assertThat(Precision.of(DType.BF16).run(() -> cell.forward(narrow, wide)).h().dtype())
                    .isEqualTo(DType.BF16);
        }
    }

    /** First the same layer; then each row of the weight has its length, whatever v is. */
    @Test
    void normalisesWeights() {
        try (Linear linear = Linear.of(4, 3, g); WeightNorm norm = WeightNorm.of(linear)) {
            Tensor x = g.normal(5, 4);
            assertSame(norm.forward(x), linear.forward(x));
            Tensor before = norm.forward(x);
            linear.weight().set(linear.weight().value().mul(7));
            assertSame(norm.forward(x), before);
            norm.state().get("length").set(Tensor.ones(3, 1));
            Tensor rows = norm.forward(Tensor.eye(4)).sub(linear.bias().value());
            assertSame(rows.square().sum(0), Tensor.ones(3));
        }
    }

    /** Power iterations find the singular value 5; inference changes nothing. */
    @Test
    void dividesByTheLargestSingularValue() {
        Parameter weight = Parameter.of(Tensor.of(new float[] {3, 0, 0, 0, -5, 0}, 2, 3));
        try (Layer norm = SpectralNorm.of(Linear.of(weight, null), g)) {
            for (int i = 0; i < 30; i++) {
                Mode.training(g, () -> norm.forward(Tensor.zeros(1, 3)));
            }
            float[] left = norm.state().get("left").value().toFloats();
            assertSame(norm.forward(Tensor.eye(3)), Tensor.of(new float[] {0.6f, 0, 0, -1, 0, 0}, 3, 2));
            assertThat(norm.state().get("left").value().toFloats()).isEqualTo(left);
            assertThat(norm.parameters().keySet()).containsExactly("layer.weight");
        }
    }

    /** The estimate may be stored in another type than that in which the layer computes. */
    @Test
    void normalisesConvolutionsInDoublePrecision() {
        try (Layer norm = SpectralNorm.of(Conv2d.of(2, 3, 3).build(g), g).to(DType.F64)) {
            Tensor y = Mode.training(g, () -> norm.forward(g.normal(1, 2, 4, 4).to(DType.F64)));
            assertThat(y.shape().dims()).containsExactly(1, 3, 2, 2);
            assertThat(y.isFinite().all().item()).isEqualTo(1);
        }
    }
}
