package dev.starling.nn.preprocess;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.Batch;
import dev.starling.nn.data.CsvFile;
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
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PreprocessTest {
    private static final float NAN = Float.NaN;

    @TempDir
    private Path directory;

    private final Scope scope = Scope.open();

    @AfterEach
    void close() {
        scope.close();
    }

    private static void copy(Layer from, Layer to) {
        copyOf(from.state(), to);
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
        // Columns: 1, 2, 3; constant; with a missing value.
        Tensor x = Tensor.of(new float[] {1, 7, 10, 2, 7, NAN, 3, 7, 30}, 3, 3);
        Normalizer normalizer = Normalizer.standard(3);
        assertThat(normalizer.isAdapted()).isFalse();
        for (Layer each : List.of(normalizer, normalizer.inverse())) {
            assertThatThrownBy(() -> each.forward(x)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("adapt(..), or load");
        }
        normalizer.adapt(x);
        assertThat(normalizer.isAdapted()).isTrue();
        // The deviation of 1, 2, 3 is √(2/3); of 10, 30 it is 10.
        float one = (float) (1 / Math.sqrt(2 / 3.0));
        assertThat(rounded(normalizer.forward(x))).containsExactly(rounded(Tensor.of(new float[] {-one, 0, -1, 0, 0, 0,
            one, 0, 1})));
        assertThat(rounded(normalizer.inverse().forward(Tensor.of(new float[] {one, 1, -1}, 1, 3))))
                .containsExactly(3, 8, 10);

        Normalizer loaded = Normalizer.standard(3);
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

    /** Otherwise all results would be 0, or a few numbers far apart: f32 has 24 bits. */
    @Test
    void refusesValuesThatF32DoesNotKeepApart() {
        for (double[] values : new double[][] {{1e8, 1e8 + 1, 1e8 + 2}, {1_767_225_600e3, 1_767_225_605e3},
            {1_767_225_600, 1_767_225_660, 1_767_225_720}}) {
            assertThatThrownBy(() -> Normalizer.standard(1).adapt(Tensor.of(values, values.length, 1)))
                    .isInstanceOf(TensorException.class)
                    .hasMessageContaining("feature 0 reach from " + values[0])
                    .hasMessageContaining("the earliest time");
        }
        Table times = Table.of(List.of(Map.of("x", 1, "t", 1_767_225_600L), Map.of("x", 2, "t", 1_767_225_660L)));
        assertThatThrownBy(() -> TableEncoder.builder().numbers("x").target("t").build().adapt(times))
                .hasMessageContaining("column \"t\" reach from");
        // Constant but for rounding; as exact as f32 can be; a day in seconds.
        for (double[] values : new double[][] {{0.3, 0.1 + 0.2}, {1e8, 1e8}, {1 << 24, (1 << 24) + 40},
            {1_767_225_600, 1_767_312_000}}) {
            Normalizer normalizer = Normalizer.standard(1).adapt(Tensor.of(values, 2, 1));
            boolean constant = (float) values[0] == (float) values[1];
            assertThat(normalizer.forward(Tensor.of(values, 2, 1).to(DType.F32)).toFloats()).containsExactly(
                    constant ? new float[] {0, 0} : new float[] {-1, 1}, within(0.05f));
        }
    }

    @Test
    void refusesToAdaptToNothing() {
        assertThatThrownBy(() -> Normalizer.standard(2).adapt(Tensor.of(new float[] {1, NAN, 2, NAN}, 2, 2)))
                .isInstanceOf(TensorException.class).hasMessageContaining("feature 1 are all missing");
        assertThatThrownBy(() -> Normalizer.standard(1).adapt(Tensor.zeros(0, 1))).hasMessageContaining("feature 0");
        Normalizer normalizer = Normalizer.standard(1);
        try (DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.zeros(1, 1), Tensor.zeros(1))).batchSize(2)
                .dropLast().build()) {
            assertThatThrownBy(() -> normalizer.adapt(loader)).hasMessageContaining("there are none");
        }
        assertThat(normalizer.isAdapted()).isFalse();
        Table missing = Table.of(House.class, List.of(new House(null, null, 1, null, "")));
        for (Table table : List.of(HOUSES.rows(new int[0]), missing)) {
            assertThatThrownBy(() -> encoder().adapt(table)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("no values in the columns [area, city, ").hasMessageContaining("price]");
        }
        TableEncoder cities = TableEncoder.builder().categories("city", 4).build();
        assertThatThrownBy(() -> cities.adapt(HOUSES.rows(2))).hasMessageContaining("in the columns [city]");
        assertThatThrownBy(() -> CategoryEncoder.of(3).adapt(List.of())).hasMessageContaining("got none");
        assertThatThrownBy(() -> TextVectorizer.of(3, 1).adapt(List.of("-"))).hasMessageContaining("got none");
    }

    /** Otherwise every text would be unknown. */
    @Test
    void refusesTextsWithoutAVocabulary() {
        assertThatThrownBy(() -> CategoryEncoder.of(3).index("a")).isInstanceOf(TensorException.class)
                .hasMessageContaining("call adapt(..), or load");
        assertThatThrownBy(() -> TextVectorizer.of(3, 1).tensor(List.of("a"))).isInstanceOf(TensorException.class)
                .hasMessageContaining("call adapt(..), or load");
    }

    @Test
    void refusesTextsThatNoFileCanHold() {
        CategoryEncoder encoder = CategoryEncoder.of(4).adapt(List.of("a"));
        assertThatThrownBy(() -> encoder.adapt(List.of("b", "c\ud800"))).isInstanceOf(TensorException.class)
                .hasMessageContaining("\"c?\" is not valid Unicode");
        assertThat(encoder.vocabulary()).containsExactly("a");
        List<String> texts = Arrays.asList("a", null);
        assertThatThrownBy(() -> TextVectorizer.of(4, 1).adapt(texts)).isInstanceOf(TensorException.class)
                .hasMessageContaining("a text is null");
        assertThatThrownBy(() -> TextVectorizer.of(4, 1).adapt(List.of("a")).tensor(texts))
                .isInstanceOf(TensorException.class).hasMessageContaining("a text is null");
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

    private record Flag(boolean v) {
    }

    private record Text(String v) {
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
        assertThatThrownBy(() -> encoder.dataset(request))
                .hasMessageContaining("row 0, column \"price\": the target is missing");
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

    private Table csv(String... values) throws IOException {
        return CsvFile.of(Files.write(directory.resolve("v.csv"), ("v\n" + String.join("\n", values)).getBytes(
                StandardCharsets.UTF_8))).read();
    }

    private static Table maps(Object... values) {
        return Table.of(Arrays.stream(values).map(value -> Map.of("v", value)).toList());
    }

    private static TableEncoder adapted(Table table) {
        return TableEncoder.builder().categories("v", 8).build().adapt(table);
    }

    @Test
    void givesAValueOneIndexWhateverElseTheTableHas() throws IOException {
        // The column has a text: values are compared as texts.
        TableEncoder postcodes = adapted(csv("01067", "AB1", "01069", "20095", "1067"));
        assertThat(postcodes.tensor(csv("01067", "AB1", "1067", "20095")).toFloats()).containsExactly(2, 6, 4, 5);
        assertThat(postcodes.tensor(csv("01067", "1067", "20095")).toFloats()).containsExactly(2, 4, 5);
        assertThat(postcodes.tensor(maps("01067", "1067", 1067, 20095.0)).toFloats()).containsExactly(2, 4, 4, 5);
        assertThat(postcodes.tensor(maps(1067, 20095.0)).toFloats()).containsExactly(4, 5);
        assertThat(postcodes.tensor(csv("001067")).toFloats()).containsExactly(1);
        Table texts = Table.of(Text.class, List.of(new Text("20095"), new Text("1067")));
        assertThat(adapted(texts).tensor(csv("20095", "01067", "020095")).toFloats()).containsExactly(3, 1, 1);

        // It has numbers only: they are compared as numbers.
        TableEncoder versions = adapted(csv("1.0", "2.0", "1.10"));
        assertThat(versions.tensor(csv("1.0", "2.0", "1.10")).toFloats()).containsExactly(2, 4, 3);
        assertThat(versions.tensor(csv("1.0", "2.0", "1.10", "beta")).toFloats()).containsExactly(2, 4, 3, 1);
        assertThat(versions.tensor(maps("1.0")).toFloats()).containsExactly(2);
        assertThat(versions.tensor(maps("1.0", 2, 1.1, "beta")).toFloats()).containsExactly(2, 4, 3, 1);
        Path german = Files.writeString(directory.resolve("g.csv"), "v\n1,0\n1,1\nbeta\n");
        assertThat(versions.tensor(CsvFile.of(german).separator(';').decimal(',').read()).toFloats())
                .containsExactly(2, 3, 1);

        TableEncoder flags = adapted(csv("true", "false"));
        for (Table same : List.of(csv("true", "false"), maps(true, false), Table.of(Flag.class, List.of(new Flag(true),
                new Flag(false))), maps(true, false, "x").rows(0, 1))) {
            assertThat(flags.tensor(same).toFloats()).containsExactly(3, 2);
            assertThat(adapted(same).tensor(csv("true", "false")).toFloats()).containsExactly(3, 2);
        }
        TableEncoder mixed = adapted(maps(3.0, "n/a"));
        assertThat(mixed.tensor(maps(3.0)).toFloats()).containsExactly(2);
        assertThat(mixed.tensor(maps(3, "x")).toFloats()).containsExactly(2, 1);

        TableEncoder classes = TableEncoder.builder().categories("v", 8).classes("v", 3).build().adapt(csv("1.0", "2",
                "1.10"));
        assertThat(classes.classes()).containsExactly("1", "1.1", "2");
        try (DataLoader loader = DataLoader.of(classes.dataset(maps("1.0", "1.10"))).build()) {
            assertThat(loader.epoch(0).iterator().next().target().toLongs()).containsExactly(0, 1);
        }
    }

    /** Their vocabularies are of numbers as a table writes them, in columns of numbers, also of booleans. */
    @Test
    void loadsFilesWithoutNamesOfColumns() throws IOException {
        TableEncoder old = adapted(maps("0", "1", "7"));
        Map<String, Parameter> state = new HashMap<>(old.state());
        assertThat(state.keySet().removeIf(name -> name.startsWith("columns_"))).isTrue();
        TableEncoder loaded = TableEncoder.builder().categories("v", 8).build();
        copyOf(state, loaded);
        assertThat(loaded.tensor(csv("07", "1.0")).toFloats()).containsExactly(4, 3);
        assertThat(loaded.tensor(maps(true, false)).toFloats()).containsExactly(3, 2);
        assertThat(loaded.tensor(maps("07", "7")).toFloats()).containsExactly(1, 4);
        state.remove("category0.text");
        assertThatThrownBy(() -> copyOf(state, loaded)).isInstanceOf(CheckpointException.class);
    }

    private static void copyOf(Map<String, Parameter> state, Layer to) {
        try (SafeTensors file = SafeTensors.of(SafeTensors.bytes(state, Map.of()))) {
            file.into(to.state());
        }
    }

    @Test
    void refusesTheFileOfAnEncoderWithOtherColumns() {
        Table table = Table.of(List.of(Map.of("a", 1, "b", 2, "c", "x", "d", "y", "k", "u"), Map.of("a", 3, "b", 5, "c",
                "z", "d", "w", "k", "v")));
        TableEncoder saved = TableEncoder.builder().numbers("a", "b").categories("c", 4).categories("d", 5)
                .classes("k", 2).build().adapt(table);
        List<TableEncoder.Builder> others = List.of(
                TableEncoder.builder().numbers("b", "a").categories("c", 4).categories("d", 5).classes("k", 2),
                TableEncoder.builder().numbers("a", "b").categories("d", 5).categories("c", 4).classes("k", 2),
                TableEncoder.builder().numbers("a", "b").categories("c", 5).categories("d", 4).classes("k", 2),
                TableEncoder.builder().numbers("a", "b").categories("c", 4).categories("d", 5).classes("k", 1));
        for (TableEncoder.Builder each : others) {
            TableEncoder other = each.build();
            copy(saved, other);
            for (ThrowingCallable use : List.<ThrowingCallable>of(() -> other.tensor(table),
                    () -> other.forward(Tensor.zeros(1, 4)))) {
                assertThatThrownBy(use).isInstanceOf(TensorException.class).hasMessageContaining(
                        "[numbers(\"a\"), numbers(\"b\"), categories(\"c\", 4), categories(\"d\", 5), "
                        + "classes(\"k\", 2)], got [numbers(");
            }
        }
        TableEncoder smaller = TableEncoder.builder().numbers("a").classes("k", 1).build();
        Map<String, Parameter> old = new HashMap<>(TableEncoder.builder().numbers("a").classes("k", 2).build()
                .adapt(table).state());
        old.keySet().removeIf(name -> name.startsWith("columns_"));
        copyOf(old, smaller);
        assertThatThrownBy(() -> smaller.tensor(table)).hasMessageContaining("the classes [u, v], more than 1");
    }

    @Test
    void keepsItsStatisticsIfItCannotAdapt() {
        TableEncoder encoder = TableEncoder.builder().numbers("area").categories("city", 4).classes("kind", 2).build()
                .adapt(HOUSES);
        Table other = Table.of(House.class, List.of(new House(100.0, "Rome", 1, 1.0, "a"), new House(300.0, "Oslo", 1,
                1.0, "b"), new House(500.0, "Oslo", 1, 1.0, "c")));
        float[] before = encoder.forward(encoder.tensor(HOUSES)).toFloats();
        assertThatThrownBy(() -> encoder.adapt(other)).hasMessageContaining("classes(\"kind\", 3)");
        assertThat(encoder.forward(encoder.tensor(HOUSES)).toFloats()).isEqualTo(before);
    }

    @Test
    void takesAColumnThatNoMapHasAsMissing() {
        TableEncoder encoder = TableEncoder.builder().numbers("area").categories("city", 4).build().adapt(HOUSES);
        assertThat(encoder.tensor(Table.of(List.of(Map.of("area", 1)))).toFloats()).containsExactly(1, 0);
        assertThat(encoder.tensor(Table.of(List.of(Map.of("city", "Bern"), Map.of())).rows(1, 0)).toFloats())
                .containsExactly(NAN, 0, NAN, 2);
        assertThatThrownBy(() -> encoder.tensor(Table.of(Flag.class, List.of(new Flag(true)))))
                .hasMessageContaining("no column \"area\"");
    }

    /** One of them is trained, the other is loaded: a builder must not make them share a vocabulary. */
    @Test
    void buildsEncodersThatShareNothing() {
        TableEncoder.Builder builder = TableEncoder.builder().categories("city", 4);
        builder.build().adapt(HOUSES);
        TableEncoder second = builder.build();
        assertThatThrownBy(() -> second.tensor(HOUSES)).hasMessageContaining("adapt(table)");
        assertThatThrownBy(() -> builder.categories("year", 2)).hasMessageContaining("above 2");
        assertThatThrownBy(() -> builder.categories("city", 9)).isInstanceOf(TensorException.class)
                .hasMessageContaining("column \"city\" is among the categories already");
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
