package dev.starling.spark.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.model.Networks;
import dev.starling.nn.search.Search;
import dev.starling.nn.search.SearchResult;
import dev.starling.nn.train.Metric;
import dev.starling.spark.PackedRows;
import dev.starling.spark.Perceptron;
import dev.starling.spark.SharedSession;
import dev.starling.tensor.Generator;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BrokenBarrierException;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.spark.SparkContext;
import org.apache.spark.serializer.KryoSerializer;
import org.apache.spark.serializer.SerializerInstance;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/** Trials as independent tasks. */
@Timeout(240)
@ExtendWith(SharedSession.class)
class SparkSearchTest {
    private static Search search() {
        return Search.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
                .over("sizes", "2,8,2", "2,32,2", "3,2").over(Search.RATE, "0.000001", "0.03").epochs(4).halving(2)
                .metric(Metric::accuracy).seed(5);
    }

    private static Dataset<Row> points() {
        return SharedSession.points(200, 400).orderBy("id").coalesce(1);
    }

    private static List<String> losses(SearchResult result) {
        return result.trials().stream().map(t -> t.number() + " " + t.epochs() + " " + t.loss() + " " + t.metric())
                .toList();
    }

    @Test
    void returnsTheResultsOfOneMachineAndResumes(@TempDir Path directory) throws Exception {
        String kept = directory.resolve("trials").toUri().toString();
        SearchResult result = SparkSearch.of(search()).keep(kept).run(points(), List.of("point"), "label");
        // Six trials of one epoch, three of two, one of four.
        assertThat(result.trials()).hasSize(10);
        assertThat(result.computed()).isEqualTo(10);
        assertThat(result.best().settings()).containsEntry(Search.RATE, "0.03");
        assertThat(result.best().epochs()).isEqualTo(4);
        assertThat(result.trials()).anySatisfy(t -> assertThat(String.valueOf(t.problem())).contains("last size of x"));
        assertThat(SparkSearch.frame(SharedSession.get(), result).where("problem is null").count()).isEqualTo(10
                - result.trials().stream().filter(t -> t.problem() != null).count());
        assertThat(result.table()).contains("settings", "{sizes=2,32,2, rate=0.03}");

        PackedRows rows = PackedRows.of(points(), List.of("point"), null, "label", true);
        assertThat(losses(search().run(rows.slice(0, 320), rows.slice(320, 400), 2))).isEqualTo(losses(result));

        SearchResult again = SparkSearch.of(search()).keep(kept).run(points(), List.of("point"), "label");
        assertThat(again.computed()).isZero();
        assertThat(again.trials()).isEqualTo(result.trials());

        List<Path> files;
        try (var listed = Files.list(directory.resolve("trials"))) {
            files = listed.filter(p -> p.toString().endsWith(".properties")).sorted().toList();
        }
        assertThat(files).hasSize(10);
        Files.delete(files.get(3));
        Files.writeString(files.get(7), "loss=");
        SearchResult rest = SparkSearch.of(search()).keep(kept).sideBySide(2).run(points(), List.of("point"), "label");
        assertThat(rest.computed()).isEqualTo(2);
        assertThat(losses(rest)).isEqualTo(losses(result));
        assertThat(SparkSearch.of(search().seed(6)).keep(kept).sideBySide(3).run(points(), List.of("point"), "label")
                .computed()).as("trials of another seed").isEqualTo(10);
    }

    /** A model whose construction waits until another one is constructed in the same process. */
    public static final class Meeting implements ModelFactory {
        private static final CyclicBarrier TWO = new CyclicBarrier(2);

        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            try {
                TWO.await(20, TimeUnit.SECONDS);
            } catch (InterruptedException | BrokenBarrierException | TimeoutException e) {
                throw new IllegalStateException("no other trial has started: " + e, e);
            }
            return Networks.mlp(generator, 2, 2);
        }
    }

    @Test
    void runsTrialsOfATaskConcurrently() {
        SearchResult result = SparkSearch.of(Search.of(ModelDescription.of(Meeting.class, Map.of()),
                Loss::crossEntropy).over(Search.RATE, "0.1", "0.2", "0.3", "0.4")).sideBySide(2)
                .run(points(), List.of("point"), "label");
        assertThat(result.trials()).hasSize(4).allMatch(t -> t.problem() == null);
    }

    @Test
    void refusesADirectoryThatCannotBeWrittenBeforeTheFirstTrial(@TempDir Path directory) throws Exception {
        Path file = Files.createFile(directory.resolve("file"));
        // The trials would take hours.
        Search search = Search.of(ModelDescription.of(Perceptron.class, Map.of("sizes", "2,2")), Loss::crossEntropy)
                .over(Search.RATE, "0.1", "0.2").epochs(10_000_000);
        Dataset<Row> points = points();
        CompletableFuture<SearchResult> found = CompletableFuture.supplyAsync(() -> SparkSearch.of(search)
                .keep(file.toUri().toString()).run(points, List.of("point"), "label"));
        try {
            assertThatThrownBy(() -> found.get(20, TimeUnit.SECONDS)).cause().isInstanceOf(CheckpointException.class)
                    .hasMessageContaining("results of trials cannot be kept in " + file.toUri())
                    .hasMessageContaining("keep results where files can be written");
        } finally {
            SharedSession.get().sparkContext().cancelAllJobs();
        }
    }

    @Test
    void keepsRowsThatSparkBroadcastsByKryo() {
        SparkContext context = SharedSession.get().sparkContext();
        PackedRows rows = PackedRows.of(points(), List.of("point"), null, "label", true);
        SerializerInstance kryo = new KryoSerializer(context.conf()).newInstance();
        ClassTag<PackedRows> type = ClassTag$.MODULE$.<PackedRows>apply(PackedRows.class);
        PackedRows copy = kryo.<PackedRows>deserialize(kryo.serialize(rows, type), type);
        assertThat(copy.size()).isEqualTo(400);
        assertThat(copy.digest()).isEqualTo(rows.digest());
    }

    @Test
    void endsTrialsWhenTheListenerFails() throws Exception {
        // The first trial fails immediately; the others would take hours.
        assertThatThrownBy(() -> SparkSearch.of(Search.of(ModelDescription.of(Perceptron.class, Map.of()),
                        Loss::crossEntropy).over("sizes", "none", "2,2").epochs(10_000_000).listener(_ -> {
                            throw new IllegalStateException("enough");
                        })).sideBySide(1).run(points(), List.of("point"), "label"))
                .isInstanceOf(IllegalStateException.class).hasMessage("enough");
        SharedSession.awaitIdle(SharedSession.get().sparkContext(), Duration.ofSeconds(10));
    }

    @Test
    void endsTrialsWhenTheWaitingThreadIsInterrupted() throws Exception {
        SparkContext context = SharedSession.get().sparkContext();
        CompletableFuture<Throwable> failure = new CompletableFuture<>();
        CountDownLatch first = new CountDownLatch(1);
        Thread searching = Thread.ofPlatform().start(() -> {
            try {
                // The first trial fails immediately; the others would take hours.
                SparkSearch.of(Search.of(ModelDescription.of(Perceptron.class, Map.of()), Loss::crossEntropy)
                        .over("sizes", "none", "2,2").epochs(10_000_000).listener(_ -> first.countDown())).sideBySide(1)
                        .run(points(), List.of("point"), "label");
            } catch (RuntimeException e) {
                failure.complete(e);
            }
        });
        assertThat(first.await(30, TimeUnit.SECONDS)).isTrue();
        searching.interrupt();
        assertThat(failure.get(20, TimeUnit.SECONDS)).isInstanceOf(CancellationException.class);
        SharedSession.awaitIdle(context, Duration.ofSeconds(10));
    }
}
