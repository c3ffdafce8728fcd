package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/** Columns that a model adds, in a query, in SQL and in a stream. */
@Timeout(120)
@ExtendWith(SharedSession.class)
class TransformTest {
    private static TrainedModel model() {
        ModelDescription description = ModelDescription.of(Perceptron.class, Map.of("sizes", "2,4,3"));
        Map<String, String> texts = new LinkedHashMap<>(description.metadata());
        texts.putAll(new Columns(List.of(new Columns.Column("point", ColumnType.ARRAY_OF_FLOAT, 2)), new long[] {2},
                null, false).metadata());
        try (Layer layer = description.build(Generator.seeded(11))) {
            return TrainedModel.of(SafeTensors.bytes(layer.state(), texts));
        }
    }

    private static float[] expected(TrainedModel model, float x, float y) {
        try (Layer layer = model.build(); Scope scope = Scope.open("test")) {
            return Mode.inference(() -> layer.forward(Tensor.of(new float[] {x, y}, 1, 2))).toFloats();
        }
    }

    private static void check(TrainedModel model, List<Row> rows) {
        for (Row row : rows) {
            float[] values = expected(model, row.getFloat(row.fieldIndex("x")), row.getFloat(row.fieldIndex("y")));
            List<Float> got = row.getList(row.fieldIndex("v"));
            int best = 0;
            for (int i = 0; i < values.length; i++) {
                assertThat(got.get(i)).isCloseTo(values[i], within(1e-5f));
                best = values[i] > values[best] ? i : best;
            }
            assertThat(row.getInt(row.fieldIndex("c"))).isEqualTo(best);
        }
    }

    @Test
    void shouldAddColumnsThatTheModelAloneComputes(@TempDir Path directory) {
        TrainedModel model = model();
        String file = directory.resolve("model.safetensors").toUri().toString();
        SparkSession session = SharedSession.get();
        model.save(file, session.sparkContext().hadoopConfiguration());
        TrainedModel loaded = TrainedModel.load(file, session.sparkContext().hadoopConfiguration());
        Dataset<Row> points = SharedSession.points(300, 900);
        Dataset<Row> scored = loaded.transform(points, Output.ofClass("c"), Output.ofProbability("p"),
                Output.ofValues("v"));
        assertThat(scored.columns()).containsExactly("id", "x", "y", "point", "label", "height", "c", "p", "v");
        List<Row> rows = scored.orderBy("id").collectAsList();
        assertThat(rows).hasSize(900);
        check(model, rows);
        for (Row row : rows.subList(0, 3)) {
            assertThat(row.<Float>getList(7).stream().mapToDouble(p -> p).sum()).isCloseTo(1, within(1e-5));
        }
    }

    @Test
    void shouldBeAFunctionOfSql() {
        TrainedModel model = model();
        SparkSession session = SharedSession.get();
        model.register(session, "values_of", Output.Kind.VALUES);
        model.register(session, "class_of", Output.Kind.CLASS);
        SharedSession.points(10, 40).createOrReplaceTempView("points");
        check(model, session.sql("select x, y, values_of(point) as v, class_of(point) as c from points")
                .collectAsList());
    }

    @Test
    void shouldScoreAStream(@TempDir Path directory) throws Exception {
        SparkSession session = SharedSession.get();
        TrainedModel model = model();
        Dataset<Row> points = SharedSession.points(10, 40);
        points.write().parquet(directory.resolve("in").toString());
        Dataset<Row> stream = session.readStream().schema(points.schema())
                .parquet(directory.resolve("in").toString());
        StreamingQuery query = model.transform(stream, Output.ofClass("c"), Output.ofValues("v")).writeStream()
                .format("parquet").option("path", directory.resolve("out").toString())
                .option("checkpointLocation", directory.resolve("state").toString())
                .trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow()).start();
        assertThat(query.awaitTermination(60_000)).isTrue();
        List<Row> rows = session.read().parquet(directory.resolve("out").toString()).collectAsList();
        assertThat(rows).hasSize(40);
        check(model, rows);
    }

    @Test
    void shouldRefuseColumnsThatTheModelCannotTake() {
        Dataset<Row> points = SharedSession.points(10, 40);
        assertThatThrownBy(() -> model().transform(points.drop("point"), Output.ofClass("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("there is no column \"point\"");
        assertThatThrownBy(() -> model().transform(points, Output.ofClass("label")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("\"label\" already");
        assertThatThrownBy(() -> model().transform(points.selectExpr("array(x) as point"), Output.ofClass("c"))
                .collectAsList()).hasMessageContaining("column \"point\", row 0 of partition");
    }
}
