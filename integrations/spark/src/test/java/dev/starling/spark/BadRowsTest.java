package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.tensor.Generator;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Unusable rows cause an exception on the driver that names the column and, if there is one, the row. */
@Timeout(120)
@ExtendWith(SharedSession.class)
class BadRowsTest {
    private static SparkTrainer trainer() {
        return SparkTrainerTest.trainer().epochs(1);
    }

    private static void fails(SparkTrainer trainer, Dataset<Row> rows, String... parts) {
        assertThatThrownBy(() -> trainer.fit(rows)).isInstanceOf(SparkDataException.class)
                .satisfies(e -> assertThat(e.getMessage()).contains(parts));
    }

    @Test
    void namesAColumnThatIsMissingOrNoNumber() {
        Dataset<Row> points = SharedSession.points(100, 200);
        fails(trainer().inputs("pixels"), points, "there is no column \"pixels\"", "point");
        fails(trainer().inputs("point", "text"), points.selectExpr("*", "'a' as text"), "column \"text\"", "string");
        fails(trainer().classes("point"), points, "column \"point\"", "one number");
        fails(trainer().shape(3, 3), points, "[3, 3]", "hold 2");
        fails(trainer(), points.where("id < 0"), "no rows");
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            array(x, cast('NaN' as float)) as point              | label               | holds NaN at index 1
            array(x, y) as point                                 | null                | is null
            """)
    void namesTheRow(String point, String label, String what) {
        String column = point.substring(0, point.indexOf(" as point"));
        Dataset<Row> rows = SharedSession.points(100, 200).selectExpr("id", "case when id = 117 then " + column
                + " else array(x, y) end as point", "case when id = 117 then " + label
                + " else cast(label as double) end as label");
        fails(trainer(), rows, "column \"" + (label.strip().equals("label") ? "point" : "label")
                + "\", row 17 of partition 1", what);
    }

    @Test
    void namesTheRowThatCannotBePacked() {
        Dataset<Row> rows = SharedSession.points(100, 200).selectExpr("case when id = 117 then "
                + "array(x, cast('NaN' as float)) else array(x, y) end as point", "label");
        assertThatThrownBy(() -> PackedRows.of(rows, List.of("point"), null, "label", true))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("column \"point\", row 17 of partition 1")
                .hasMessageContaining("holds NaN at index 1").hasMessageNotContaining("\tat ");
    }

    static Stream<Arguments> values() {
        Object good = ArrayData.toArrayData(new float[] {1, 2});
        return Stream.of(Arguments.of(null, 1.0, "\"point\"", "is null"),
                Arguments.of(ArrayData.toArrayData(new float[] {1, Float.NaN}), 1.0, "\"point\"", "NaN at index 1"),
                Arguments.of(ArrayData.toArrayData(new float[] {1}), 1.0, "\"point\"", "1 numbers; every row needs 2"),
                Arguments.of(new GenericArrayData(new Object[] {1f, null}), 1.0, "\"point\"", "is null at index 1"),
                Arguments.of(good, 0.5, "\"label\"", "holds 0.5; a class is a whole number"),
                Arguments.of(good, -1.0, "\"label\"", "holds -1.0"), Arguments.of(good, null, "\"label\"", "is null"),
                Arguments.of(good, Double.NaN, "\"label\"", "holds NaN"),
                Arguments.of(good, 1e10, "\"label\"", "holds 1.0E10"));
    }

    @ParameterizedTest
    @MethodSource("values")
    void refusesTheValue(Object point, Double label, String column, String what) {
        Columns columns = new Columns(List.of(new Columns.Column("point", ColumnType.ARRAY_OF_FLOAT, 2)),
                new long[] {2}, new Columns.Column("label", ColumnType.DOUBLE, 1), true);
        RowName name = new RowName(3);
        name.row = 5;
        MemorySegment to = MemorySegment.ofArray(new byte[(int) RowReader.bytes(columns)]);
        assertThatThrownBy(() -> new RowReader(columns).read(new GenericInternalRow(new Object[] {point, label}), to, 0,
                name)).isInstanceOf(SparkDataException.class).hasMessageContaining("column " + column
                + ", row 5 of partition 3: ").hasMessageContaining(what);
    }

    @Test
    void reportsAModelThatDoesNotFitTheColumns() {
        fails(SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "3,2")), Loss::crossEntropy,
                (model, steps) -> Adam.over(model).build()).inputs("point").classes("label"),
                SharedSession.points(100, 200), "does not fit the columns [point]");
        fails(SparkTrainer.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "2,2")), Loss::meanSquared,
                (model, steps) -> Adam.over(model).build()).inputs("point").target("height"),
                SharedSession.points(100, 200), "does not fit the columns");
    }

    @Test
    void reportsAClassThatTheModelLacks() {
        fails(trainer(), SharedSession.points(100, 200).selectExpr("point", "case when id = 150 then 7 else label end "
                + "as label"), "rank");
    }

    @Test
    void refusesAnEmptyPartitionUnderGossip() {
        fails(trainer().strategy(Strategy.gossip(2)), SharedSession.points(0, 200), "partition 0 has no rows; under "
                + "gossip each worker needs some");
    }

    @Test
    void trainsWithAnEmptyPartition() {
        assertThat(trainer().fit(SharedSession.points(0, 200)).epochs().getLast().training().examples())
                .isEqualTo(200);
    }

    @Test
    void namesTheHeldOutRow() {
        Dataset<Row> points = SharedSession.points(100, 200);
        fails(trainer().heldOut(points.selectExpr("case when id = 117 then array(x, x + double('NaN')) else "
                + "array(x, y) end as point", "label")), points,
                "column \"point\", held-out row 17 of partition 1", "holds NaN");
        fails(trainer().heldOut(points.selectExpr("array(x) as point", "label")), points, "column \"point\"",
                "1 numbers in the first held-out row, but 2");
        fails(trainer().heldOut(points.drop("label")), points, "there is no column \"label\"");
        fails(trainer().heldOut(points.where("id < 0")), points, "no rows");
    }

    @Test
    void reportsWhyCheckpointsCannotBeWritten() {
        assertThatThrownBy(() -> trainer().checkpoints("file:///proc/none", -1)).hasMessageContaining("steps must be");
        assertThatThrownBy(() -> trainer().attempts(1).checkpoints("file:///proc/none").fit(SharedSession.points(10,
                40))).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("checkpoints in file:/proc/none cannot be created");
    }

    @Test
    void reportsWhichSettingOfADeepBeliefNetworkIsWrong() {
        Map.of("units", "round", "scale", "0", "steps", "1.5", "dropout", "half").forEach((name, value) ->
                assertThatThrownBy(() -> new DeepBelief().create(Map.of("sizes", "2,3,2", name, value),
                        Generator.seeded(1))).isInstanceOf(IllegalArgumentException.class).hasMessageContaining(name)
                        .hasMessageContaining(value));
    }

    @Test
    void reportsTheRequirementsOfAnElasticRun() {
        Dataset<Row> points = SharedSession.points(100, 200);
        assertThatThrownBy(() -> trainer().elastic().fit(points)).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("these are shuffled").hasMessageContaining("setCheckpointDir");
        assertThatThrownBy(() -> trainer().elastic().strategy(Strategy.asynchronousServers(1)).fit(points))
                .isInstanceOf(SparkJobException.class).hasMessageContaining("elastic() is for ring and gossip");
        assertThatThrownBy(() -> trainer().pretraining(1).fit(points)).isInstanceOf(SparkJobException.class)
                .hasMessageContaining("pretraining(n) is for models of " + DeepBelief.class.getName());
    }

    @Test
    void endsAnElasticRunAtABadRow(@TempDir Path directory) {
        SharedSession.points(100, 200).selectExpr("case when id = 117 then array(x) else point end as point", "label")
                .write().parquet(directory + "/points");
        assertThatThrownBy(() -> trainer().elastic().fit(SharedSession.get().read().parquet(directory + "/points")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("has 1 numbers; every row needs 2");
    }
}
