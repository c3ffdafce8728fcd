package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.errors.StarlingException;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.BufferPoolMXBean;
import java.lang.management.ManagementFactory;
import java.net.URI;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.util.Progressable;
import org.apache.spark.api.java.function.MapFunction;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
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

    /** A file system without room for more than the first bytes of a file. */
    static final class FullDisk extends RawLocalFileSystem {
        @Override
        public URI getUri() {
            return URI.create("full:///");
        }

        @Override
        public FSDataOutputStream create(org.apache.hadoop.fs.Path f, boolean overwrite, int bufferSize,
                short replication, long blockSize, Progressable progress) throws IOException {
            FSDataOutputStream out = super.create(f, overwrite, bufferSize, replication, blockSize, progress);
            return new FSDataOutputStream(new FilterOutputStream(out) {
                @Override
                public void write(byte[] bytes, int from, int length) throws IOException {
                    out.write(bytes, from, length / 2);
                    throw new IOException("no space left on device");
                }
            }, null);
        }
    }

    @Test
    void keepsTheOldFileIfANewOneCannotBeSaved(@TempDir Path directory) {
        String file = directory.resolve("model.safetensors").toString();
        Configuration hadoop = new Configuration();
        hadoop.set("fs.full.impl", FullDisk.class.getName());
        TrainedModel model = model();
        model.save(file, hadoop);
        model.save(file, hadoop);
        List<String> files = List.of(Objects.requireNonNull(directory.toFile().list()));
        assertThatThrownBy(() -> model.save("full:" + file, hadoop)).isInstanceOf(UncheckedIOException.class)
                .hasMessageContaining("cannot be written").hasMessageContaining("no space left on device");
        assertThat(TrainedModel.load(file, hadoop).safetensors()).isEqualTo(model.safetensors());
        assertThat(directory.toFile().list()).containsExactlyInAnyOrderElementsOf(files);
    }

    @Test
    void addsTheColumnsOfTheModel(@TempDir Path directory) {
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

    private static Dataset<Row> sql(String query) {
        return SharedSession.get().sql(query);
    }

    private static int passes(Dataset<Row> frame) {
        String plan = ((org.apache.spark.sql.classic.Dataset<Row>) frame).queryExecution().sparkPlan().toString();
        return plan.split("ScoredBatches", -1).length - 1;
    }

    @Test
    void isAFunctionOfSqlThatComputesBatches() {
        TrainedModel model = model();
        SparkSession session = SharedSession.get();
        model.register(session, "values_of", Output.Kind.VALUES);
        model.register(session, "class_of", Output.Kind.CLASS);
        SharedSession.points(10, 40).selectExpr("*", "if(id % 4 = 0, null, point) as hole")
                .createOrReplaceTempView("points");
        Dataset<Row> both = sql("select x, y, values_of(point) as v, class_of(point) as c from points");
        check(model, both.collectAsList());
        assertThat(passes(both)).as("passes for two results").isEqualTo(1);
        long ones = both.where("c = 1").count();
        assertThat(ones).isPositive();
        Dataset<Row> where = sql("select id, x, y, values_of(point) as v, class_of(point) as c from points "
                + "where class_of(point) = 1 and id < 30");
        assertThat(where.collectAsList()).hasSize((int) both.where("c = 1").join(sql("select x, y from points "
                + "where id < 30"), new String[] {"x", "y"}).count()).allMatch(r -> r.<Integer>getAs("c") == 1);
        check(model, where.collectAsList());
        assertThat(sql("select count(*) from points group by class_of(point) having class_of(point) = 1").first()
                .getLong(0)).isEqualTo(ones);
        assertThat(sql("select count(*) from points a join points b on class_of(a.point) = class_of(b.point) "
                + "and a.id = b.id").first().getLong(0)).isEqualTo(40);
        assertThat(sql("select id from points order by class_of(array(x, y)), id").first().getLong(0))
                .isEqualTo(sql("select min(id) from points where class_of(point) = "
                + "(select min(class_of(point)) from points)").first().getLong(0));
        Dataset<Row> holes = sql("select x, y, hole, values_of(hole) as v, class_of(hole) as c from points");
        check(model, holes.where("hole is not null").collectAsList());
        assertThat(holes.where("hole is null and v is null and c is null").count()).isEqualTo(10);
    }

    @Test
    void computesForGroupsWhatDependsOnAggregates() {
        model().register(SharedSession.get(), "class_of", Output.Kind.CLASS);
        SharedSession.points(10, 40).createOrReplaceTempView("points");
        long ones = sql("select sum(class_of(point)) from points where class_of(point) = 1").first().getLong(0);
        assertThat(ones).isPositive();
        assertThat(sql("select class_of(point) as c, count(*) as n, sum(class_of(point)) as s from points "
                + "group by point").selectExpr("sum(int(c = 1) * n)", "sum(int(c = 1) * s)").first())
                .isEqualTo(RowFactory.create(ones, ones));
        assertThat(sql("select class_of(array(avg(x), avg(y))) as c, class_of(max(array(x, y))) as d from points "
                + "group by id").where("c = 1").count()).isEqualTo(ones);
    }

    @Test
    void readsAheadFewerRowsWhereTheyAreLarge() {
        int mebibytes = 4 << 20;
        // The refused row comes after the first 128 MiB of rows, but is among the first 256 rows.
        Dataset<Row> large = SharedSession.get().range(0, 100, 1, 1).map((MapFunction<Long, byte[]>) id ->
                new byte[id == 60 ? mebibytes + 1 : mebibytes], Encoders.BINARY()).selectExpr("value",
                "if(length(value) > " + mebibytes + ", null, array(float(1), float(2))) as point");
        assertThat(model().transform(large, Output.ofClass("c")).toJavaRDD().map(row -> row.getInt(2)).take(1))
                .hasSize(1);
    }

    @Test
    void refusesAModelThatReturnsNoResultForEachRow() {
        ModelDescription description = ModelDescription.of(Pixels.class, Map.of("together", "true"));
        Map<String, String> texts = new LinkedHashMap<>(description.metadata());
        texts.putAll(new Columns(List.of(new Columns.Column("point", ColumnType.ARRAY_OF_FLOAT, 2)), new long[] {2},
                null, false).metadata());
        TrainedModel together = TrainedModel.of(SafeTensors.bytes(Map.of(), texts));
        assertThatThrownBy(() -> together.transform(SharedSession.points(10, 40), Output.ofClass("c")).collectAsList())
                .hasMessageContaining("the first size must be the number of rows");
        texts.remove(Columns.SHAPE);
        TrainedModel damaged = TrainedModel.of(SafeTensors.bytes(Map.of(), texts));
        assertThatThrownBy(() -> damaged.transform(SharedSession.points(10, 40), Output.ofClass("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("description of its columns is damaged");
    }

    @Test
    void computesRowByRowWhereOnlySomeRowsAreRequested() {
        model().register(SharedSession.get(), "class_of", Output.Kind.CLASS);
        SharedSession.points(10, 40).selectExpr("*", "if(id % 4 = 0, array(float('NaN'), x), point) as hole")
                .createOrReplaceTempView("points");
        Dataset<Row> guarded = sql("select id, class_of(point) as c, case when id % 4 != 0 then "
                + "class_of(hole) end as d, "
                + "transform(array(point, point), p -> class_of(p)) as both from points");
        assertThat(passes(guarded)).isEqualTo(1);
        assertThat(guarded.where("both != array(c, c) or d != c").count()).isZero();
        assertThat(guarded.where("d is null").count()).isEqualTo(10);
        assertThatThrownBy(() -> sql("select class_of(hole) from points").collectAsList())
                .hasMessageContaining("column \"hole\", row ").hasMessageContaining("holds NaN at index 0");
        assertThatThrownBy(() -> sql("select class_of(cast(id as string)) from points"))
                .hasMessageContaining("class_of: column").hasMessageContaining("is of type string; it must hold");
        assertThatThrownBy(() -> sql("select class_of(x, y, y) from points"))
                .hasMessageContaining("the model takes 1 columns [point], got [x, y, y]");
    }

    @Test
    void keepsTheFileOfEachRow(@TempDir Path directory) {
        String address = directory.resolve("points").toString();
        SharedSession.points(10, 1200).repartition(4).write().parquet(address);
        Dataset<Row> points = SharedSession.get().read().parquet(address);
        assertThat(points.javaRDD().getNumPartitions()).as("partitions of several files").isLessThan(4);
        Column[] file = {functions.col("id"), functions.input_file_name().as("file"),
            functions.expr("input_file_block_length()").as("length")};
        Set<Row> known = new HashSet<>(points.select(file).collectAsList());
        assertThat(known.stream().map(row -> row.getString(1)).distinct()).hasSize(4);
        assertThat(model().transform(points, Output.ofClass("c")).select(file).collectAsList())
                .containsExactlyInAnyOrderElementsOf(known);
        model().register(SharedSession.get(), "class_of", Output.Kind.CLASS);
        assertThat(points.where("class_of(point) >= 0 and class_of(array(y, x)) >= 0").select(file).collectAsList())
                .containsExactlyInAnyOrderElementsOf(known);
    }

    @Test
    void reservesMemoryForTheRowsThatArriveOnly() {
        int width = 1 << 18;
        Columns wide = new Columns(List.of(new Columns.Column("p", ColumnType.ARRAY_OF_FLOAT, width)),
                new long[] {width}, null, false);
        InternalRow row = new GenericInternalRow(new Object[] {UnsafeArrayData.fromPrimitiveArray(new float[width])});
        BufferPoolMXBean direct = ManagementFactory.getPlatformMXBeans(BufferPoolMXBean.class).stream()
                .filter(pool -> pool.getName().equals("direct")).findFirst().orElseThrow();
        long before = direct.getMemoryUsed();
        Scorer scorer = new Scorer(new ScoredModel(null, "", Map.of(), false, false), wide,
                List.of(Output.Kind.CLASS), 256);
        for (int i = 0; i < 3; i++) {
            scorer.add(row, new int[] {0}, new RowName(0));
        }
        assertThat(scorer.rows()).isEqualTo(3);
        assertThat(direct.getMemoryUsed() - before).isLessThan(16L * width * Float.BYTES);
    }

    @Test
    void computesOnceForAFilterAndAColumn(@TempDir Path directory) {
        SharedSession.points(10, 40).write().parquet(directory.resolve("points").toString());
        Dataset<Row> scored = model().transform(SharedSession.get().read().parquet(directory.resolve("points")
                .toString()), Output.ofClass("c"), Output.ofValues("v")).where("c = 1 and label = 0")
                .select("id", "c", "v");
        assertThat(passes(scored)).isEqualTo(1);
        assertThat(((org.apache.spark.sql.classic.Dataset<Row>) scored).queryExecution().executedPlan().toString())
                .contains("EqualTo(label,0)").doesNotContain("height");
        assertThat(scored.count()).isEqualTo(model().transform(SharedSession.points(10, 40), Output.ofClass("c"))
                .where("c = 1 and label = 0").count());
        Dataset<Row> self = scored.as("a").join(scored.as("b"), "id");
        assertThat(self.count()).isEqualTo(scored.count());
    }

    @Test
    void scoresAStream(@TempDir Path directory) throws Exception {
        SparkSession session = SharedSession.get();
        TrainedModel model = model();
        Dataset<Row> points = SharedSession.points(10, 40);
        points.write().parquet(directory.resolve("in").toString());
        Dataset<Row> stream = session.readStream().schema(points.schema())
                .parquet(directory.resolve("in").toString());
        model.register(session, "class_of", Output.Kind.CLASS);
        StreamingQuery query = model.transform(stream, Output.ofClass("c"), Output.ofValues("v"))
                .where("class_of(point) = c").writeStream()
                .format("parquet").option("path", directory.resolve("out").toString())
                .option("checkpointLocation", directory.resolve("state").toString())
                .trigger(org.apache.spark.sql.streaming.Trigger.AvailableNow()).start();
        assertThat(query.awaitTermination(60_000)).isTrue();
        List<Row> rows = session.read().parquet(directory.resolve("out").toString()).collectAsList();
        assertThat(rows).hasSize(40);
        check(model, rows);
    }

    @Test
    void refusesColumnsThatTheModelCannotUse() {
        Dataset<Row> points = SharedSession.points(10, 40);
        assertThatThrownBy(() -> model().transform(points.drop("point"), Output.ofClass("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("there is no column \"point\"");
        assertThatThrownBy(() -> model().transform(points, Output.ofClass("label")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("\"label\" already");
        assertThatThrownBy(() -> model().transform(points, Output.ofClass("c"), Output.ofValues("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("\"c\" already");
        assertThatThrownBy(() -> model().transform(points, Output.ofClass("Label")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("\"Label\" already");
        SharedSession.get().conf().set("spark.sql.caseSensitive", true);
        try {
            assertThat(model().transform(points, Output.ofClass("Label")).columns()).contains("label", "Label");
        } finally {
            SharedSession.get().conf().unset("spark.sql.caseSensitive");
        }
        assertThatThrownBy(() -> model().transform(points.selectExpr("'0.5' as point"), Output.ofClass("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("column \"point\" is of type string");
        assertThatThrownBy(() -> model().transform(points, List.of("x", "y", "y"), Output.ofClass("c")))
                .isInstanceOf(SparkDataException.class).hasMessageContaining("takes 1 columns [point], got [x, y, y]");
        assertThat(model().transform(points.where("id < 0"), Output.ofClass("c")).collectAsList()).isEmpty();
    }

    @Test
    void refusesAColumnWhoseNameIsThereTwice() {
        StructType twice = new StructType().add("point", new ArrayType(DataTypes.FloatType, false)).add("id", "long")
                .add("point", new ArrayType(DataTypes.FloatType, false));
        assertThatThrownBy(() -> new Columns.Selection(List.of("point"), null, null, false).check(twice))
                .isInstanceOf(SparkDataException.class).hasMessage("there are 2 columns \"point\"; drop or rename all "
                        + "but one");
    }

    @Test
    void namesTheRowThatTheModelCannotScoreOrReturnsNull() {
        Map<String, String> bad = Map.of("array(x)", "has 1 numbers; every row needs 2", "array(x, float('NaN'))",
                "holds NaN at index 1", "cast(null as array<float>)", "is null", "array(x, null)",
                "is null at index 1");
        Dataset<Row> points = SharedSession.points(10, 40);
        bad.forEach((value, message) -> {
            Dataset<Row> rows = points.selectExpr("id", "if(id = 12, " + value + ", point) as point");
            assertThatThrownBy(() -> model().transform(rows, Output.ofClass("c")).collectAsList()).as(value)
                    .hasMessageMatching("(?s).*column \"point\", row \\d+ of partition 1: \\Q" + message + "\\E.*");
            assertThat(model().nullForBadRows().transform(rows, Output.ofClass("c")).where("c is null")
                    .collectAsList()).as(value).singleElement().matches(row -> row.getLong(0) == 12);
        });
    }

    @Test
    void refusesADamagedFile(@TempDir Path directory) throws Exception {
        byte[] bytes = model().safetensors();
        Path file = directory.resolve("model.safetensors");
        for (byte[] damaged : List.of(java.util.Arrays.copyOf(bytes, bytes.length - 5), new byte[0],
                "no model".getBytes(java.nio.charset.StandardCharsets.US_ASCII))) {
            java.nio.file.Files.write(file, damaged);
            assertThatThrownBy(() -> TrainedModel.load(file.toUri().toString(), new Configuration()))
                    .isInstanceOf(StarlingException.class).hasMessageContaining("model.safetensors");
        }
    }
}
