package dev.starling.nn.preprocess;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Table;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Resize;
import dev.starling.nn.layer.Upsample;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PreprocessTest {
    private static final float NAN = Float.NaN;

    private final Scope scope = Scope.open();

    @AfterEach
    void close() {
        scope.close();
    }

    private static void copy(Layer from, Layer to) {
        try (SafeTensors file = SafeTensors.of(SafeTensors.bytes(from.state(), Map.of()))) {
            file.into(to.state());
        }
    }

    private static float[] rounded(Tensor x) {
        float[] values = x.toFloats();
        for (int i = 0; i < values.length; i++) {
            values[i] = Math.round(values[i] * 1e4f) / 1e4f;
        }
        return values;
    }

    @Test
    void normalisesToMean0AndVariance1() {
        // Columns: 1, 2, 3; constant; with a missing value; only missing values.
        Tensor x = Tensor.of(new float[] {1, 7, 10, NAN, 2, 7, NAN, NAN, 3, 7, 30, NAN}, 3, 4);
        Normalizer normalizer = Normalizer.standard(4);
        assertThat(normalizer.isAdapted()).isFalse();
        for (Layer each : List.of(normalizer, normalizer.inverse())) {
            assertThatThrownBy(() -> each.forward(x)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("adapt(..), or load");
        }
        normalizer.adapt(x);
        assertThat(normalizer.isAdapted()).isTrue();
        // The deviation of 1, 2, 3 is √(2/3); of 10, 30 it is 10.
        float one = (float) (1 / Math.sqrt(2 / 3.0));
        assertThat(rounded(normalizer.forward(x))).containsExactly(rounded(Tensor.of(new float[] {-one, 0, -1, 0, 0,
            0, 0, 0, one, 0, 1, 0})));
        assertThat(rounded(normalizer.inverse().forward(Tensor.of(new float[] {one, 1, -1, 5}, 1, 4))))
                .containsExactly(3, 8, 10, 5);

        Normalizer loaded = Normalizer.standard(4);
        copy(normalizer, loaded);
        assertThat(loaded.forward(x).toFloats()).isEqualTo(normalizer.forward(x).toFloats());
        assertThat(normalizer.parameters()).isEmpty();
    }

    @Test
    void normalisesToTheRangeFrom0To1() {
        Tensor x = Tensor.of(new float[] {1, 5, 3, 5, 9, NAN}, 3, 2);
        Normalizer normalizer = Normalizer.minMax(2).adapt(x);
        assertThat(normalizer.forward(x).toFloats()).containsExactly(0, 0, 0.25f, 0, 1, 0);
        assertThat(normalizer.inverse().forward(normalizer.forward(x)).toFloats()).containsExactly(1, 5, 3, 5, 9, 5);
    }

    /** Otherwise all results of that feature would be NaN, or 0. */
    @Test
    void refusesStatisticsThatAreNotFinite() {
        Normalizer normalizer = Normalizer.standard(2);
        assertThatThrownBy(() -> normalizer.adapt(Tensor.of(new double[] {1, 1, 2, 1 / 0.0}, 2, 2)))
                .isInstanceOf(TensorException.class).hasMessageContaining("feature 1 reach from 1.0 to Infinity");
        assertThat(normalizer.isAdapted()).isFalse();
        assertThatThrownBy(() -> Normalizer.standard(1).adapt(Tensor.of(new double[] {1e39, 1e39}, 2, 1)))
                .hasMessageContaining("1.0E39");
        assertThatThrownBy(() -> Normalizer.minMax(1).adapt(Tensor.of(new double[] {-3e38, 3e38}, 2, 1)))
                .hasMessageContaining("feature 0 reach from -3.0E38");
    }

    @Test
    void convertsBackInTheTypeOfItsInput() {
        Normalizer normalizer = Normalizer.standard(1).adapt(Tensor.of(new float[] {1, 3}, 2, 1));
        Tensor y = Tensor.of(new double[] {1 / 3.0}, 1, 1);
        assertThat(normalizer.inverse().forward(y).toDoubles()).containsExactly(new double[] {2 + 1 / 3.0},
                within(1e-15));
    }

    @Test
    void normalisesChannelsOfImagesAdaptedToBatches() {
        Tensor images = Generator.seeded(1).normal(7, 3, 4, 5).mul(3).add(100);
        Normalizer once = Normalizer.standard(3).along(1).adapt(images);
        Normalizer inBatches = Normalizer.standard(3).along(1);
        try (DataLoader loader = DataLoader.of(TensorDataset.of(images, Tensor.zeros(7))).batchSize(2).build()) {
            inBatches.adapt(loader);
        }
        Tensor y = inBatches.forward(images);
        assertThat(y.toFloats()).isEqualTo(once.forward(images).toFloats());
        for (int channel = 0; channel < 3; channel++) {
            Tensor each = y.narrow(1, channel, 1);
            assertThat(each.mean().item()).isCloseTo(0, within(1e-5));
            assertThat(each.square().mean().item()).isCloseTo(1, within(1e-4));
        }
        Tensor bytes = Tensor.of(new int[] {0, 128, 255}, 1, 3, 1, 1).to(DType.U8);
        assertThat(Normalizer.standard(3).along(1).adapt(bytes).forward(bytes).toFloats()).containsOnly(0);
        assertThatThrownBy(() -> once.forward(Tensor.zeros(2, 4, 4, 5))).isInstanceOf(TensorException.class)
                .hasMessageContaining("3 features in dimension 1");
        assertThatThrownBy(() -> Normalizer.standard(-1)).isInstanceOf(TensorException.class);
    }

    @Test
    void encodesCategoriesByFrequency() {
        CategoryEncoder encoder = CategoryEncoder.of(5);
        List<@Nullable String> texts = Arrays.asList("b", "a", null, "c", "é\n", "b", "é\n", "a", "");
        encoder.adapt(texts);
        // Two of each of a, b and é; among equally frequent texts the order is that of the texts.
        assertThat(encoder.vocabulary()).containsExactly("a", "b", "é\n");
        assertThat(texts.stream().mapToInt(encoder::index).toArray()).containsExactly(3, 2, 0, 1, 4, 3, 4, 2, 1);
        assertThat(encoder.forward(Tensor.of(new long[] {0, 4})).toFloats()).containsExactly(1, 0, 0, 0, 0, 0, 0, 0, 0,
                1);

        // A model that was built anew has another vocabulary, of another size, until it is loaded.
        CategoryEncoder loaded = CategoryEncoder.of(5);
        copy(encoder, loaded);
        assertThat(loaded.vocabulary()).isEqualTo(encoder.vocabulary());
        assertThat(loaded.index("é\n")).isEqualTo(4);
        loaded.adapt(List.of("x", "yz"));
        assertThat(loaded.vocabulary()).containsExactly("x", "yz");
        copy(encoder, loaded);
        assertThat(loaded.index("yz")).isEqualTo(1);
        assertThat(loaded.index("a")).isEqualTo(2);
        loaded.to(DType.BF16);
        assertThat(loaded.vocabulary()).isEqualTo(encoder.vocabulary());
        assertThatThrownBy(() -> CategoryEncoder.of(2)).isInstanceOf(TensorException.class);
    }

    /** One that begins with all texts of a larger encoder would return indices without a column. */
    @Test
    void refusesTheVocabularyOfALargerEncoder() {
        CategoryEncoder larger = CategoryEncoder.of(5).adapt(List.of("a", "b", "c"));
        CategoryEncoder smaller = CategoryEncoder.of(4);
        copy(larger, smaller);
        assertThat(smaller.index("b")).isEqualTo(3);
        assertThatThrownBy(() -> smaller.index("c")).isInstanceOf(TensorException.class)
                .hasMessageContaining("the vocabulary has 3 texts, but of 4 indices only 2 are for texts");

        TextVectorizer shorter = TextVectorizer.of(4, 2);
        copy(TextVectorizer.of(5, 2).adapt(List.of("a b c")), shorter);
        assertThatThrownBy(() -> shorter.tensor(List.of("c"))).isInstanceOf(TensorException.class)
                .hasMessageContaining("the vocabulary has 3 tokens, but of 4 indices only 2 are for tokens");
    }

    @Test
    void encodesIndicesThatTheirTypeHolds() {
        CategoryEncoder encoder = CategoryEncoder.of(300);
        Tensor bytes = encoder.forward(Tensor.of(new long[] {1, 44, 255}).to(DType.U8));
        assertThat(bytes.argmax(1).toLongs()).containsExactly(1, 44, 255);
        assertThat(bytes.sum(1).toFloats()).containsOnly(1);
        assertThatThrownBy(() -> encoder.forward(Tensor.of(new long[] {1}).to(DType.BF16)))
                .isInstanceOf(TensorException.class).hasMessageContaining("rounded in bf16 above 256");
        assertThat(encoder.forward(Tensor.of(new long[] {299}).to(DType.F16)).argmax(1).toLongs())
                .containsExactly(299);
    }

    @Test
    void refusesABrokenVocabulary() {
        CategoryEncoder encoder = CategoryEncoder.of(5).adapt(List.of("ab", "c"));
        encoder.state().get("ends").set(Tensor.of(new long[] {2, 4}));
        assertThatThrownBy(() -> encoder.index("ab")).isInstanceOf(TensorException.class)
                .hasMessageContaining("must ascend to 3");
    }

    @Test
    void turnsTextsIntoIndicesOfWords() {
        TextVectorizer vectorizer = TextVectorizer.of(6, 4).adapt(List.of("The cat, the DOG!", "the dog; naïve cat's",
                "bird"));
        // the 3, cat 2, dog 2, then of bird, naïve, s (one each) the first.
        assertThat(vectorizer.vocabulary()).containsExactly("the", "cat", "dog", "bird");
        Tensor x = vectorizer.tensor(List.of("A dog -- the cat sat there", "", "bird"));
        assertThat(x.shape().dims()).containsExactly(3, 4);
        assertThat(x.toLongs()).containsExactly(1, 4, 2, 3, 0, 0, 0, 0, 5, 0, 0, 0);

        Sequential model = Sequential.of(vectorizer, Embedding.of(vectorizer.size(), 2, Generator.seeded(1)));
        TextVectorizer other = TextVectorizer.of(6, 4);
        Sequential loaded = Sequential.of(other, Embedding.of(6, 2, Generator.seeded(2)));
        copy(model, loaded);
        assertThat(loaded.forward(other.tensor(List.of("the bird"))).toFloats()).isEqualTo(model.forward(
                vectorizer.tensor(List.of("the bird"))).toFloats());
        assertThat(TextVectorizer.of(5, 2, text -> List.of(text.split(""))).adapt(List.of("abba")).tensor(List.of("ba"))
                .toLongs()).containsExactly(3, 2);
        assertThatThrownBy(() -> TextVectorizer.of(6, 0)).isInstanceOf(TensorException.class);
    }

    private record House(@Nullable Double area, @Nullable String city, int year, @Nullable Double price,
            @Nullable String kind) {
    }

    private static final Table HOUSES = Table.of(House.class, List.of(new House(1.0, "Bern", 1990, 100.0, "flat"),
            new House(null, "Biel", 1990, 200.0, "villa"), new House(3.0, null, 2001, 300.0, "flat")));

    private static TableEncoder encoder() {
        return TableEncoder.builder().numbers("area").categories("city", 4).categories("year", 3).target("price")
                .build();
    }

    @Test
    void encodesTables() {
        TableEncoder encoder = encoder();
        assertThat(encoder.width()).isEqualTo(8);
        assertThatThrownBy(() -> encoder.tensor(HOUSES)).isInstanceOf(TensorException.class)
                .hasMessageContaining("adapt(table)");
        encoder.adapt(HOUSES);
        Tensor raw = encoder.tensor(HOUSES);
        assertThat(raw.toFloats()).containsExactly(1, 2, 2, NAN, 3, 2, 3, 0, 1);
        assertThat(encoder.forward(raw).toFloats()).containsExactly(
                -1, 0, 0, 1, 0, 0, 0, 1,
                0, 0, 0, 0, 1, 0, 0, 1,
                1, 1, 0, 0, 0, 0, 1, 0);
        try (DataLoader loader = DataLoader.of(encoder.dataset(HOUSES)).build()) {
            Batch batch = loader.epoch(0).iterator().next();
            assertThat(batch.input().toFloats()).isEqualTo(raw.toFloats());
            assertThat(batch.target().toFloats()).containsExactly(100, 200, 300);
            assertThat(batch.target().shape().dims()).containsExactly(3, 1);
        }
        // Requests have no target, and may have unknown cities.
        Table request = Table.of(List.of(Map.of("area", 5, "city", "Rome", "year", 1990)));
        assertThat(encoder.tensor(request).toFloats()).containsExactly(5, 1, 2);
        assertThatThrownBy(() -> encoder.dataset(request)).hasMessageContaining("no column \"price\"");
        assertThatThrownBy(() -> encoder.forward(raw.to(DType.BF16))).isInstanceOf(TensorException.class)
                .hasMessageContaining("train in f32");
        assertThatThrownBy(() -> TableEncoder.builder().build()).isInstanceOf(TensorException.class);

        TableEncoder loaded = encoder();
        copy(encoder, loaded);
        assertThat(loaded.forward(loaded.tensor(HOUSES)).toFloats()).isEqualTo(encoder.forward(raw).toFloats());
        TableEncoder larger = TableEncoder.builder().numbers("area", "year").categories("city", 4).target("price")
                .build();
        assertThatThrownBy(() -> copy(encoder, larger)).isInstanceOf(CheckpointException.class);
    }

    /** One of them is trained, the other is loaded: a builder must not make them share a vocabulary. */
    @Test
    void buildsEncodersThatShareNothing() {
        TableEncoder.Builder builder = TableEncoder.builder().categories("city", 4);
        builder.build().adapt(HOUSES);
        TableEncoder second = builder.build();
        assertThatThrownBy(() -> second.tensor(HOUSES)).hasMessageContaining("adapt(table)");
        assertThatThrownBy(() -> builder.categories("year", 2)).hasMessageContaining("above 2");
    }

    @Test
    void encodesClassesAsTheTarget() {
        TableEncoder encoder = TableEncoder.builder().numbers("area").classes("kind", 2).build().adapt(HOUSES);
        assertThat(encoder.classes()).containsExactly("flat", "villa");
        try (DataLoader loader = DataLoader.of(encoder.dataset(HOUSES)).build()) {
            assertThat(loader.epoch(0).iterator().next().target().toLongs()).containsExactly(0, 1, 0);
        }
        Table other = Table.of(House.class, List.of(new House(1.0, "", 1, 1.0, "cottage"), new House(1.0, "", 1, 1.0,
                null)));
        assertThatThrownBy(() -> encoder.dataset(other)).hasMessageContaining(
                "row 0, column \"kind\": \"cottage\" is none of the classes [flat, villa]");
        assertThatThrownBy(() -> encoder.dataset(other.rows(1))).hasMessageContaining("the target is missing");
        assertThatThrownBy(() -> TableEncoder.builder().numbers("area").classes("kind", 1).build().adapt(HOUSES))
                .hasMessageContaining("classes(\"kind\", 2)");
    }

    @Test
    void isPartOfAModelThatTrainsInTheUnitOfTheTarget() {
        Generator random = Generator.seeded(1);
        TableEncoder encoder = encoder().adapt(HOUSES);
        Sequential model = Sequential.of(encoder, Linear.of(encoder.width(), 1, random), encoder.output());
        assertThat(model.parameters()).containsOnlyKeys("1.weight", "1.bias");
        assertThat(model.state()).containsKeys("0.numbers.mean", "0.category0.text", "0.target.scale");
        Tensor x = encoder.tensor(HOUSES);
        Tensor y = Tensor.of(new float[] {100, 200, 300}, 3, 1);
        try (TrainingStep step = new TrainingStep(model, Loss.meanSquared(),
                Adam.over(model).rate(0.05).build(), random).captured()) {
            for (int i = 0; i < 300; i++) {
                try (Scope each = Scope.open()) {
                    step.run(x, y);
                }
            }
        }
        assertThat(model.forward(x).toFloats()).containsExactly(new float[] {100, 200, 300}, within(2f));
    }

    @Test
    void resizesLikeUpsampleAndAveragesWhatItCovers() {
        Tensor x = Generator.seeded(3).normal(2, 3, 4, 5);
        assertThat(new Resize(8, 10, true).forward(x).toFloats()).containsExactly(Upsample.bilinear(2).forward(x)
                .toFloats(), within(1e-5f));
        assertThat(new Resize(4, 5, true).forward(x).toFloats()).isEqualTo(x.toFloats());
        // The centre of the first of two pixels lies between pixels 0 and 1 of four; with twice the support their
        // weights are 3, 3 and 1 of 7.
        Tensor row = Tensor.of(new float[] {7, 14, 21, 28}, 1, 1, 1, 4);
        assertThat(rounded(new Resize(1, 2, true).forward(row))).containsExactly(12, 23);
        assertThat(rounded(new Resize(1, 2, false).forward(row))).containsExactly(10.5f, 24.5f);
        Tensor bytes = Tensor.of(new int[] {0, 255}, 1, 1, 1, 2).to(DType.U8);
        assertThat(new Rescale(1 / 255.0, -0.5).forward(bytes).toFloats()).containsExactly(-0.5f, 0.5f);
        Precision.of(DType.BF16).run(() -> {
            assertThat(new Rescale(1, 0).forward(bytes).dtype()).isEqualTo(DType.BF16);
            return bytes;
        });
        // The largest number of 16 bits is infinite in f16.
        Tensor words = Tensor.of(new int[] {0, 65_535});
        assertThat(Precision.of(DType.F16).run(() -> new Rescale(1 / 65_535.0, 0).forward(words)).toFloats())
                .containsExactly(0, 1);
        assertThatThrownBy(() -> new Resize(0, 1, true)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> new Resize(1, 1, true).forward(Tensor.zeros(2))).isInstanceOf(TensorException.class);
    }
}
