package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.DoubleStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TableTest {
    /** What a component of a record may be. */
    private enum Kind { FLAT, HOUSE }

    private record Home(double area, int rooms, boolean garden, @Nullable Long year, Kind kind, @Nullable String city) {
    }

    private static final List<Home> HOMES = List.of(new Home(70.5, 3, true, 1990L, Kind.FLAT, "Bern"),
            new Home(Double.NaN, 5, false, null, Kind.HOUSE, null), new Home(40, 1, true, 2001L, Kind.FLAT, "Biel"));

    @Test
    void hasAColumnForEachComponentOfARecord() {
        Table table = Table.of(Home.class, HOMES);
        assertThat(table.columns()).containsExactly("area", "rooms", "garden", "year", "kind", "city");
        assertThat(table.numbers("area")).containsExactly(70.5, Double.NaN, 40);
        assertThat(table.numbers("garden")).containsExactly(1, 0, 1);
        assertThat(table.numbers("year")).containsExactly(1990, Double.NaN, 2001);
        assertThat(table.text("kind", 1)).isEqualTo("HOUSE");
        assertThat(table.text("city", 1)).isNull();
        assertThat(table.text("rooms", 1)).isEqualTo("5");
        assertThat(table.text("area", 0)).isEqualTo("70.5");
        assertThat(table.origin(1)).isEqualTo("row 1");
        assertThat(Table.of(Home.class, List.of()).isNumeric("area")).isTrue();
    }

    @Test
    void hasAColumnForEachKeyOfMaps() {
        Map<String, Object> first = new HashMap<>(Map.of("a", 1, "b", "x", "c", true));
        first.put("d", null);
        Table table = Table.of(List.of(first, Map.of("a", 2.5f, "e", 7)));
        assertThat(table.columns()).containsExactlyInAnyOrder("a", "b", "c", "d", "e");
        assertThat(table.numbers("a")).containsExactly(1, 2.5);
        assertThat(table.text("b", 1)).isNull();
        assertThat(table.numbers("e")).containsExactly(Double.NaN, 7);
        assertThat(table.numbers("d")).containsExactly(Double.NaN, Double.NaN);
        Table large = Table.of(List.of(Map.of("a", 0x1p62), Map.of("a", 0x1p63)));
        assertThat(large.text("a", 0)).isEqualTo("4611686018427387904");
        assertThat(large.text("a", 1)).isEqualTo("9.223372036854776E18");
    }

    @Test
    void writesAValueAsTheSameTextWhateverElseItHas(@TempDir Path directory) throws IOException {
        Path file = Files.writeString(directory.resolve("t.csv"), "a,b\n01,1.50\n1,1.5\nNA,2\n");
        Table table = CsvFile.of(file).read();
        assertThat(table.numbers("a")).containsExactly(1, 1, Double.NaN);
        assertThat(List.of(String.valueOf(table.text("a", 0)), String.valueOf(table.rows(2, 1).text("a", 1)),
                String.valueOf(table.text("b", 0)))).containsExactly("01", "1", "1.50");
        assertThat(table.text("a", 2)).isNull();
        assertThat(List.of(String.valueOf(table.canonicalText("a", 0)), String.valueOf(table.canonicalText("b", 0))))
                .containsExactly("1", "1.5");
        assertThat(CsvFile.of(file).numbers("a").read().text("a", 0)).isEqualTo("1");
        assertThat(CsvFile.of(file).texts("b").read().canonicalText("b", 0)).isEqualTo("1.5");
        Table mixed = Table.of(List.of(Map.of("a", 3.0, "b", true), Map.of("a", "3.0", "b", 2),
                Map.of("a", Double.NaN)));
        assertThat(mixed.text("a", 0)).isEqualTo("3");
        assertThat(mixed.text("a", 1)).isEqualTo("3.0");
        assertThat(mixed.text("a", 2)).isNull();
        assertThat(mixed.text("b", 0)).isEqualTo("true");
        assertThat(mixed.canonicalText("b", 0)).isEqualTo("1");
        assertThat(mixed.number("b", 1)).isEqualTo(2);
        assertThat(mixed.number("none", 1)).isNaN();
        long large = (1L << 53) + 1;
        assertThat(Table.of(List.of(Map.of("id", large), Map.of("id", "x"))).text("id", 0)).isEqualTo("" + large);
        assertThat(Table.of(List.of(Map.of("id", large))).text("id", 0)).isEqualTo("" + large);
    }

    @Test
    void namesTheRowThatIsNullAndTheRemedyForTexts() {
        assertThatThrownBy(() -> Table.of(Home.class, Arrays.asList(HOMES.get(0), null)))
                .isInstanceOf(TensorException.class).hasMessageContaining("record 1 is null");
        assertThatThrownBy(() -> Table.of(Arrays.asList(Map.of("a", 1), null))).isInstanceOf(TensorException.class)
                .hasMessageContaining("map 1 is null");
        assertThatThrownBy(() -> Table.of(List.of(Map.of("a", "x"))).numbers("a")).isInstanceOf(TensorException.class)
                .hasMessageContaining("use numbers in all rows").hasMessageNotContaining("CsvFile");
        assertThatThrownBy(() -> ListDataset.of(Arrays.asList("a", null), List.of(), (text, example) -> { }))
                .isInstanceOf(TensorException.class).hasMessageContaining("element 1 is null");
    }

    @Test
    void selectsRowsInAnyOrder() {
        Table table = Table.of(Home.class, HOMES).rows(2, 0, 2);
        assertThat(table.numbers("rooms")).containsExactly(1, 3, 1);
        assertThat(table.text("city", 0)).isEqualTo("Biel");
        assertThatThrownBy(() -> table.rows(3)).isInstanceOf(TensorException.class).hasMessageContaining("there are 3");
        assertThatThrownBy(() -> table.number("rooms", -1)).isInstanceOf(TensorException.class);
    }

    @Test
    void splitsItsRowsAtRandomOnceEach() {
        Table table = Table.of(Home.class, java.util.stream.IntStream.range(0, 101).mapToObj(i -> new Home(i, i, true,
                1L, Kind.FLAT, "x")).toList());
        List<Table> parts = table.split(7, 0.8, 0.2);
        assertThat(parts.get(0).rows()).isEqualTo(81);
        assertThat(parts.get(1).rows()).isEqualTo(20);
        double[] all = DoubleStream.concat(Arrays.stream(parts.get(0).numbers("area")),
                Arrays.stream(parts.get(1).numbers("area"))).toArray();
        assertThat(all).doesNotHaveDuplicates().hasSize(101).isNotEqualTo(table.numbers("area"));
        assertThat(table.split(7, 0.8, 0.2).get(1).numbers("area")).isEqualTo(parts.get(1).numbers("area"));
        assertThat(table.split(8, 0.8, 0.2).get(1).numbers("area")).isNotEqualTo(parts.get(1).numbers("area"));
        assertThat(table.split(7, 0.1, 0.1).get(1).rows()).isEqualTo(10);
        assertThatThrownBy(() -> table.split(7, 0.8, 0.3)).hasMessageContaining("at most 1");
        assertThatThrownBy(() -> table.split(7, -0.1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> table.split(7)).isInstanceOf(TensorException.class);
    }

    @Test
    void isADatasetOfNumbersAndATarget(@TempDir Path directory) throws IOException {
        Path file = Files.writeString(directory.resolve("t.csv"), "a,b,y,kind\n1,2,3,v\n4,5,6,u\n7,8,9,v\n");
        Table table = CsvFile.of(file).read();
        TableDataset numbers = TableDataset.of(table, List.of("b", "a"), "y");
        try (DataLoader loader = DataLoader.of(numbers).batchSize(3).build()) {
            Batch batch = loader.epoch(0).iterator().next();
            assertThat(batch.input().toFloats()).containsExactly(2, 1, 5, 4, 8, 7);
            assertThat(batch.target().shape().dims()).containsExactly(3, 1);
            assertThat(batch.target().toFloats()).containsExactly(3, 6, 9);
        }
        TableDataset classes = TableDataset.of(table, List.of("a"), "kind");
        assertThat(classes.classes()).containsExactly("u", "v");
        try (DataLoader loader = DataLoader.of(classes).batchSize(3).build()) {
            assertThat(loader.epoch(0).iterator().next().target().toLongs()).containsExactly(1, 0, 1);
        }
        Files.writeString(file, "a,y\n1,2\n,3\n1e39,4\n");
        Table incomplete = CsvFile.of(file).read();
        assertThatThrownBy(() -> TableDataset.of(incomplete, List.of("a"), "y")).isInstanceOf(TensorException.class)
                .hasMessageContaining("t.csv, line 3, column \"a\": the value is missing");
        assertThatThrownBy(() -> TableDataset.of(incomplete.rows(0, 2), List.of("a"), "y"))
                .hasMessageContaining("line 4, column \"a\": 1e39 is no f32");
        assertThatThrownBy(() -> TableDataset.of(table, List.of("kind"), "y")).hasMessageContaining("has texts");
    }
}
