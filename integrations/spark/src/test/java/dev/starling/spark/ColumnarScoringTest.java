package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.tensor.Generator;
import java.math.BigDecimal;
import java.nio.file.Path;
import java.sql.Date;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.spark.sql.DataFrameWriter;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A model over drawn tables gives the same rows whether it takes batches of columns from Spark's vectorised reader or
 * the rows that Spark makes of them.
 */
@Timeout(600)
@ExtendWith(SharedSession.class)
class ColumnarScoringTest {
    private static final int ROWS = 1200;
    private static final String[] INPUTS = {"float", "double", "int", "bigint", "smallint", "tinyint"};
    private static final String[] PASSED = {"string", "decimal(12,2)", "date", "timestamp", "binary", "boolean",
        "struct<a:int,b:array<float>>", "map<string,int>", "array<array<float>>", "array<float>", "array<double>",
        "array<bigint>", "array<int>", "array<smallint>", "array<tinyint>", "array<boolean>", "array<string>",
        "double"};

    /** Draws a value of a type; one in twenty is null if {@code nulls}. */
    private static Object value(DataType type, boolean nulls, int distinct, Random random) {
        if (nulls && random.nextInt(20) == 0) {
            return null;
        }
        int n = random.nextInt(distinct) - distinct / 2;
        return switch (type) {
            case org.apache.spark.sql.types.ArrayType array -> IntStream.range(0, random.nextInt(6))
                    .mapToObj(_ -> value(array.elementType(), nulls, distinct, random)).toList();
            case org.apache.spark.sql.types.MapType map -> {
                Map<Object, Object> entries = new LinkedHashMap<>();
                IntStream.range(0, random.nextInt(4)).forEach(i -> entries.put("k" + i, value(map.valueType(), nulls,
                        distinct, random)));
                yield entries;
            }
            case StructType struct -> RowFactory.create(java.util.Arrays.stream(struct.fields())
                    .map(field -> value(field.dataType(), nulls, distinct, random)).toArray());
            case org.apache.spark.sql.types.DecimalType _ -> BigDecimal.valueOf(n, 2);
            default -> switch (type.simpleString()) {
                case "string" -> "text " + n;
                case "date" -> Date.valueOf("2026-01-01");
                case "timestamp" -> new Timestamp(1_000_000L * n);
                case "binary" -> new byte[] {(byte) n, (byte) (n >> 8)};
                case "boolean" -> n > 0;
                case "float" -> n * 0.01f;
                case "double" -> n * 0.01;
                case "int" -> n;
                case "bigint" -> (long) n;
                case "smallint" -> (short) n;
                default -> (byte) n;
            };
        };
    }

    /** Draws an input of {@code width} numbers, or, if {@code bad}, one that the model cannot take. */
    private static Object input(DataType element, int width, boolean bad, int distinct, Random random) {
        int kind = bad ? random.nextInt(4) : 4;
        if (kind == 0) {
            return null;
        }
        List<Object> numbers = new ArrayList<>();
        int count = kind == 1 ? random.nextInt(2 * width) : width;
        for (int i = 0; i < count; i++) {
            numbers.add(kind == 2 && i == 1 ? null : value(element, false, distinct, random));
        }
        if (kind == 3 && !numbers.isEmpty() && element.simpleString().equals("float")) {
            numbers.set(0, Float.NaN);
        }
        return numbers;
    }

    private static TrainedModel model(int width, boolean isSplit) {
        ModelDescription description = ModelDescription.of(Perceptron.class, Map.of("sizes", width + ",4,3"));
        Map<String, String> texts = new LinkedHashMap<>(description.metadata());
        Columns.Column whole = new Columns.Column("x", ColumnType.ARRAY_OF_FLOAT, isSplit ? width - 2 : width);
        List<Columns.Column> columns = isSplit ? List.of(new Columns.Column("n", ColumnType.INT, 1), whole,
                new Columns.Column("d", ColumnType.DOUBLE, 1)) : List.of(whole);
        texts.putAll(new Columns(columns, new long[] {width}, null, false).metadata());
        try (Layer layer = description.build(Generator.seeded(11))) {
            return TrainedModel.of(SafeTensors.bytes(layer.state(), texts));
        }
    }

    /** Draws a table, writes it and returns its format. */
    private static String write(Path directory, int width, boolean isSplit, Random random) {
        DataType element = DataType.fromDDL(INPUTS[random.nextInt(INPUTS.length)]);
        List<StructField> fields = new ArrayList<>(List.of(DataTypes.createStructField("id", DataTypes.LongType, false),
                DataTypes.createStructField("part", DataTypes.IntegerType, false),
                DataTypes.createStructField("x", DataTypes.createArrayType(element), true),
                DataTypes.createStructField("n", DataTypes.IntegerType, true),
                DataTypes.createStructField("d", DataTypes.DoubleType, true)));
        for (int i = random.nextInt(6); i > 0; i--) {
            fields.add(DataTypes.createStructField("p" + i, DataType.fromDDL(PASSED[random.nextInt(PASSED.length)]),
                    true));
        }
        boolean nulls = random.nextBoolean();
        int distinct = random.nextBoolean() ? 20 : 100_000;
        List<Row> rows = new ArrayList<>();
        for (long id = 0; id < ROWS; id++) {
            List<Object> values = new ArrayList<>(List.of(id, random.nextInt(3)));
            boolean bad = nulls && random.nextInt(30) == 0;
            values.add(input(element, isSplit ? width - 2 : width, bad, distinct, random));
            for (StructField field : fields.subList(3, fields.size())) {
                values.add(value(field.dataType(), nulls, distinct, random));
            }
            rows.add(RowFactory.create(values.toArray()));
        }
        String format = random.nextInt(4) == 0 ? "orc" : "parquet";
        DataFrameWriter<Row> writer = SharedSession.get().createDataFrame(rows, DataTypes.createStructType(fields))
                .repartition(1 + random.nextInt(3), functions.col("id")).write().format(format)
                .option("parquet.enable.dictionary", random.nextInt(3) > 0)
                .option("parquet.page.size", random.nextBoolean() ? 300 : 1 << 20)
                .option("parquet.page.row.count.limit", random.nextBoolean() ? 37 : 20_000)
                .option("parquet.block.size", random.nextBoolean() ? 20_000 : 1 << 27)
                .option("parquet.writer.version", random.nextBoolean() ? "v1" : "v2")
                .option("compression", random.nextBoolean() ? "none" : "snappy");
        (random.nextInt(3) == 0 ? writer.partitionBy("part") : writer).save(directory.toString());
        return format;
    }

    private static <T> T with(Map<String, String> settings, Supplier<T> action) {
        SparkSession session = SharedSession.get();
        try {
            settings.forEach((name, text) -> session.conf().set(name, text));
            return action.get();
        } finally {
            settings.keySet().forEach(session.conf()::unset);
        }
    }

    private static String plan(Dataset<Row> frame) {
        return ((org.apache.spark.sql.classic.Dataset<Row>) frame).queryExecution().executedPlan().toString();
    }

    private static void compare(Path directory, long seed) {
        Random random = new Random(seed);
        int width = 3 + random.nextInt(80);
        boolean isSplit = random.nextInt(3) == 0;
        String format = write(directory, width, isSplit, random);
        TrainedModel model = model(width, isSplit).nullForBadRows();
        int query = random.nextInt(3);
        Map<String, String> settings = Map.of(
                "spark.sql.parquet.columnarReaderBatchSize", List.of("7", "100", "256", "300", "4096").get(random
                        .nextInt(5)), "spark.sql.orc.columnarReaderBatchSize", "300",
                "spark.sql.columnVector.offheap.enabled", Boolean.toString(random.nextBoolean()));
        // A filter that keeps all rows, and that takes rows.
        List<List<String>> found = Stream.of(true, false).map(byRow -> with(settings, () -> {
            Dataset<Row> rows = SharedSession.get().read().format(format).load(directory.toString());
            Dataset<Row> all = model.transform(byRow ? rows.where("id >= 0") : rows, Output.ofClass("c"),
                    Output.ofValues("v"));
            Dataset<Row> scored = query == 1 ? all.where("c = 1 or c is null") : query == 2 ? all.drop("x") : all;
            assertThat(plan(scored).contains("ColumnarToRow")).as("seed " + seed + ": " + plan(scored))
                    .isEqualTo(byRow);
            return scored.selectExpr("id", "to_json(struct(*)) as all").orderBy("id").collectAsList().stream()
                    .map(Row::toString).toList();
        })).toList();
        assertThat(found.getFirst()).as("seed " + seed).hasSizeBetween(query == 1 ? 1 : ROWS, ROWS);
        assertThat(found.getLast()).as("seed " + seed).isEqualTo(found.getFirst());
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4, 5, 6})
    void scoresTheSameRows(long seed, @TempDir Path directory) {
        compare(directory.resolve("rows"), seed);
    }

    @Test
    @Tag("stress")
    void scoresTheSameRowsOfManyTables(@TempDir Path directory) {
        for (long seed = 100; seed < 250; seed++) {
            compare(directory.resolve("rows" + seed), seed);
        }
    }

    @Test
    void endsEarly(@TempDir Path directory) {
        Random random = new Random(1);
        String format = write(directory.resolve("rows"), 10, false, random);
        Dataset<Row> rows = SharedSession.get().read().format(format).load(directory.resolve("rows").toString());
        Dataset<Row> scored = model(10, false).nullForBadRows().transform(rows, Output.ofClass("c"));
        assertThat(scored.limit(5).collectAsList()).hasSize(5);
        assertThat(scored.limit(700).count()).isEqualTo(700);
        // An adaptive plan, whose stages Spark plans again as it runs.
        assertThat(scored.groupBy("c").count().agg(functions.sum("count")).first().getLong(0)).isEqualTo(ROWS);
        assertThat(scored.as("a").join(scored.as("b"), "id").count()).isEqualTo(ROWS);
    }
}
