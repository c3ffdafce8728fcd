package dev.starling.spark;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.model.ModelDescription;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.Threads;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.spark.api.java.function.MapPartitionsFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.StorageLevel;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Rows per second of two executors with a core each: the engine on a batch in memory, compared with queries over rows
 * that Spark keeps in memory and over Parquet. Rows in memory show what scoring costs beside the model; over Parquet a
 * core decodes and computes in turn, so that scoring is compared with what engine and reader can reach together. With
 * {@code -Pdjl}, a {@code mapPartitions} with DJL's PyTorch as well. Prints a table.
 */
@Tag("stress")
@Timeout(1200)
@ExtendWith(SharedSession.class)
class ScoringSpeedTest {
    private static final int BATCH = 256;
    private static final int ROUNDS = 5;
    private static final String ENGINE = "engine alone";
    /** As docs/spark.md recommends for wide arrays. */
    private static final String READER_BATCH = "spark.sql.parquet.columnarReaderBatchSize";

    private record Way(long rows, Runnable run) { }

    private static TrainedModel model(Class<?> factory, ColumnType type, long... shape) {
        ModelDescription description = new ModelDescription(factory.getName(), Map.of("sizes", "784,1024,1024,10"));
        Map<String, String> texts = new LinkedHashMap<>(description.metadata());
        texts.putAll(new Columns(List.of(new Columns.Column("pixels", type, 784)), shape, null, false).metadata());
        try (Layer layer = description.build(Generator.seeded(1))) {
            return TrainedModel.of(SafeTensors.bytes(layer.state(), texts));
        }
    }

    @BeforeEach
    void readFewerRowsAtATime() {
        SharedSession.get().conf().set(READER_BATCH, 256);
    }

    @AfterEach
    void readAsBefore() {
        SharedSession.get().conf().unset(READER_BATCH);
    }

    /** Computes as many batches as the rows make, without any rows. */
    private static void engine(TrainedModel model, long rows, long[] shape) {
        byte[] weights = model.safetensors();
        int batches = (int) (rows / 2 / BATCH);
        SharedSession.get().range(0, 2, 1, 2).mapPartitions((MapPartitionsFunction<Long, Integer>) _ -> {
            Layer layer = ExecutorModels.lease("engine" + Arrays.hashCode(weights), () -> weights);
            Threads.with(1, () -> {
                try (Scope scope = Scope.open("speed")) {
                    long[] dims = new long[shape.length + 1];
                    dims[0] = BATCH;
                    System.arraycopy(shape, 0, dims, 1, shape.length);
                    Tensor x = Tensor.zeros(dims).add(0.5f);
                    for (int i = 0; i < batches; i++) {
                        try (Scope step = Scope.open("step")) {
                            Mode.inference(() -> layer.forward(x));
                        }
                    }
                    return null;
                }
            });
            ExecutorModels.release("engine" + Arrays.hashCode(weights));
            return List.of(batches).iterator();
        }, Encoders.INT()).collectAsList();
    }

    private static void consume(Dataset<Row> frame) {
        frame.write().format("noop").mode("overwrite").save();
    }

    @SuppressWarnings("unchecked")
    private static BiFunction<Dataset<Row>, Boolean, Dataset<Row>> djl() throws ReflectiveOperationException {
        try {
            return (BiFunction<Dataset<Row>, Boolean, Dataset<Row>>) Class.forName("dev.starling.spark.DjlScoring")
                    .getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            return null;
        }
    }

    @ParameterizedTest
    @CsvSource({"dev.starling.spark.Perceptron, array<float>, 200000", "dev.starling.spark.DigitNetwork, array<float>, "
            + "100000", "dev.starling.spark.Perceptron, binary, 200000"})
    void reachesFourFifthsOfTheEngine(Class<?> factory, String column, long rows, @TempDir Path directory)
            throws Exception {
        SparkSession session = SharedSession.get();
        boolean isArray = column.startsWith("array");
        long[] shape = factory == Perceptron.class ? new long[] {784} : new long[] {1, 28, 28};
        TrainedModel model = model(factory, isArray ? ColumnType.ARRAY_OF_FLOAT : ColumnType.BYTES, shape);
        String file = directory.resolve("rows").toString();
        session.range(0, rows, 1, 2).selectExpr("id", isArray ? "transform(sequence(0, 783), i -> "
                + "cast(abs(hash(id % 5000, i)) % 256 as float)) as pixels"
                : "substring(cast(repeat(sha2(cast(id as string), 512), 7) as binary), 1, 784) "
                + "as pixels")
                .write().parquet(file);
        Dataset<Row> frame = session.read().parquet(file);
        model.register(session, "class_of", Output.Kind.CLASS);
        frame.createOrReplaceTempView("images");
        Dataset<Row> memory = frame.where("id % 2 = 0").persist(StorageLevel.MEMORY_ONLY());
        long inMemory = memory.count();
        memory.createOrReplaceTempView("images_in_memory");
        BiFunction<Dataset<Row>, Boolean, Dataset<Row>> djl = isArray ? djl() : null;
        Map<String, Way> ways = new LinkedHashMap<>();
        ways.put(ENGINE, new Way(rows, () -> engine(model, rows, shape)));
        String query = "select *, class_of(pixels) as c from ";
        String condition = "select id from %s where class_of(pixels) = 3";
        ways.put("rows in memory", new Way(inMemory, () -> consume(memory)));
        ways.put("transform, memory", new Way(inMemory, () -> consume(model.transform(memory, Output.ofClass("c")))));
        ways.put("SQL, memory", new Way(inMemory, () -> consume(session.sql(query + "images_in_memory"))));
        ways.put("WHERE, memory", new Way(inMemory,
                () -> consume(session.sql(condition.formatted("images_in_memory")))));
        ways.put("Parquet alone", new Way(rows, () -> consume(frame)));
        ways.put("transform, Parquet", new Way(rows, () -> consume(model.transform(frame, Output.ofClass("c")))));
        ways.put("SQL, Parquet", new Way(rows, () -> consume(session.sql(query + "images"))));
        ways.put("WHERE, Parquet", new Way(rows, () -> consume(session.sql(condition.formatted("images")))));
        if (djl != null) {
            ways.put("DJL, Parquet", new Way(rows, () -> consume(djl.apply(frame, factory == Perceptron.class))));
        }
        Map<String, Double> medians = medians(ways);
        memory.unpersist(true);
        medians.forEach((way, speed) -> System.out.printf(Locale.ROOT, "%-12s %-13s %-22s %9.0f rows/s  %.2f%n",
                factory.getSimpleName(), column, way, speed, speed / medians.get(ENGINE)));
        double inTurn = 1 / (1 / medians.get(ENGINE) + 1 / medians.get("Parquet alone"));
        System.out.printf(Locale.ROOT, "%-12s %-13s %-22s %9.0f rows/s  %.2f%n", factory.getSimpleName(), column,
                "engine, then Parquet", inTurn, inTurn / medians.get(ENGINE));
        for (String way : List.of("transform", "SQL", "WHERE")) {
            assertThat(medians.get(way + ", memory")).as(way).isGreaterThan(0.8 * medians.get(ENGINE));
            assertThat(medians.get(way + ", Parquet")).as(way).isGreaterThan(0.9 * inTurn);
        }
    }

    /** Returns the rows per second of each way, medians of rounds in turn after a round of warm-up. */
    private static Map<String, Double> medians(Map<String, Way> ways) {
        Map<String, List<Double>> speeds = new LinkedHashMap<>();
        for (int round = -1; round < ROUNDS; round++) {
            for (Map.Entry<String, Way> way : ways.entrySet()) {
                long begin = System.nanoTime();
                way.getValue().run.run();
                double speed = way.getValue().rows / ((System.nanoTime() - begin) / 1e9);
                if (round >= 0) {
                    speeds.computeIfAbsent(way.getKey(), _ -> new ArrayList<>()).add(speed);
                }
            }
        }
        Map<String, Double> medians = new LinkedHashMap<>();
        speeds.forEach((way, all) -> medians.put(way, all.stream().sorted().toList().get(ROUNDS / 2)));
        return medians;
    }
}
