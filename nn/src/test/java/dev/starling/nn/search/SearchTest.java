package dev.starling.nn.search;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.model.Networks;
import dev.starling.nn.train.Metric;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFileAttributeView;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Searches in this process. */
@Timeout(60)
class SearchTest {
    /** A network with one hidden layer. */
    public static final class Hidden implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return Networks.mlp(generator, 2, Long.parseLong(settings.get("width")), 2);
        }
    }

    /** A model whose own code ends with an error that is no exception. */
    public static final class Asserting implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            if (settings.get("width").equals("3")) {
                throw new AssertionError("the width must be even");
            }
            return new Hidden().create(settings, generator);
        }
    }

    /** A model with a mistake in its own code. */
    public static final class Broken implements ModelFactory {
        @Override
        public Layer create(Map<String, String> settings, Generator generator) {
            return Sequential.of(Networks.mlp(generator, 2, 2), x -> x.mul(new float[] {1, 2}[7]));
        }
    }

    private static Search search() {
        return Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy)
                .over("width", "4", "16", "many").over(Search.RATE, "0.000001", "0.03").over(Search.OPTIMIZER, "adam")
                .epochs(4).halving(2).metric(Metric::accuracy).seed(5);
    }

    private static TensorDataset points(int from, int count) {
        float[] x = new float[2 * count];
        long[] y = new long[count];
        for (int i = 0; i < count; i++) {
            x[2 * i] = (from + i) * 37 % 101 / 100f;
            x[2 * i + 1] = (from + i) * 53 % 97 / 96f;
            y[i] = x[2 * i] + x[2 * i + 1] > 1 ? 1 : 0;
        }
        return TensorDataset.of(Tensor.of(x, count, 2), Tensor.of(y, count));
    }

    private static List<String> losses(SearchResult result) {
        return result.trials().stream().map(t -> t.number() + " " + t.epochs() + " " + t.loss()).toList();
    }

    @Test
    void stopsWorseTrialsEarlyAndMakesNoTrialTwice(@TempDir Path directory) {
        try (Scope scope = Scope.open("test")) {
            TensorDataset train = points(0, 300);
            TensorDataset heldOut = points(300, 100);
            List<Trial> heard = new ArrayList<>();
            SearchResult result = search().keep(TrialStore.of(directory)).listener(heard::add).run(train, heldOut, 3);
            assertThat(result.trials().stream().map(Trial::epochs)).containsExactly(4, 2, 2, 2, 1, 1, 1, 1, 1, 1);
            assertThat(heard).containsExactlyInAnyOrderElementsOf(result.trials());
            assertThat(result.best().settings()).containsEntry("rate", "0.03").doesNotContainEntry("width", "many");
            assertThat(result.best().metric()).isGreaterThan(0.85);
            assertThat(result.trials().stream().filter(t -> t.problem() != null)).hasSize(2)
                    .allMatch(t -> t.problem().contains("many") && t.loss() == Double.POSITIVE_INFINITY);
            assertThat(losses(search().run(train, heldOut, 1))).as("one at a time").isEqualTo(losses(result));
            SearchResult again = search().keep(TrialStore.of(directory)).run(train, heldOut, 2);
            assertThat(again.computed()).isZero();
            assertThat(again.trials()).isEqualTo(result.trials());
            assertThat(search().keep(TrialStore.of(directory)).run(train, points(300, 99), 2).computed())
                    .as("trials with other examples").isEqualTo(10);
            assertThat(search().random(3).halving(5).run(train, heldOut, 2).trials()).hasSize(3);
        }
    }

    /** The first is no text in UTF-8, the second no number. */
    @Test
    void makesTrialsAgainWhoseResultsAreDamaged(@TempDir Path directory) throws IOException {
        TrialStore store = TrialStore.of(directory);
        TrialTraining training = search().training();
        Trial.Plan plan = new Trial.Plan(0, Map.of("width", "4"), 1);
        Path file = directory.resolve(training.name(plan, ""));
        TrialFiles.put(store, training.name(plan, ""), new Trial(0, plan.settings(), 1, 0.5, 0.75, 2, null));
        assertThat(TrialFiles.get(store, training.name(plan, ""), plan).loss()).isEqualTo(0.5);
        for (byte[] damaged : new byte[][] {{(byte) 0xff, (byte) 0xfe}, "loss=x\nmetric=1\nseconds=1\n".getBytes(
                StandardCharsets.UTF_8)}) {
            Files.write(file, damaged);
            assertThat(TrialFiles.get(store, training.name(plan, ""), plan)).isNull();
        }
    }

    /** Those that share a directory of results may read them as far as other new files there. */
    @Test
    void keepsResultsWithThePermissionsOfOtherFiles(@TempDir Path directory) throws IOException {
        assumeTrue(Files.getFileStore(directory).supportsFileAttributeView(PosixFileAttributeView.class),
                "this file system has no such permissions");
        TrialStore.of(directory).write("name", "text");
        Path other = Files.writeString(directory.resolve("other"), "text");
        assertThat(Files.getPosixFilePermissions(directory.resolve("name")))
                .isEqualTo(Files.getPosixFilePermissions(other));
        assertThat(directory.toFile().list()).containsExactlyInAnyOrder("name", "other");
    }

    @Test
    void trainsNothingWhereResultsCannotBeKept() {
        TrialStore full = new TrialStore() {
            @Override
            public @Nullable String read(String name) {
                return null;
            }

            @Override
            public void write(String name, String text) { }

            @Override
            public void requireWritable() throws IOException {
                throw new IOException("no space");
            }

            @Override
            public String toString() {
                return "/full";
            }
        };
        assertThatThrownBy(() -> search().run(full, "", (plans, ended) -> {
            throw new AssertionError("a trial is trained");
        })).isInstanceOf(CheckpointException.class)
                .hasMessageContaining("results of trials cannot be kept in /full: java.io.IOException: no space");
    }

    @Test
    void findsOutWhetherItsDirectoryCanBeWritten(@TempDir Path directory) throws IOException {
        TrialStore.of(directory.resolve("new/trials")).requireWritable();
        assertThat(directory.resolve("new/trials")).isEmptyDirectory();
        Path file = Files.writeString(directory.resolve("file"), "no directory");
        assertThatThrownBy(() -> TrialStore.of(file).requireWritable()).isInstanceOf(IOException.class);
    }

    @Test
    void namesTheReasonWhyAResultCannotBeKept(@TempDir Path directory) throws IOException {
        Path file = Files.writeString(directory.resolve("file"), "no directory");
        Trial trial = new Trial(7, Map.of(), 1, 0.5, 0.75, 2, null);
        assertThatThrownBy(() -> TrialFiles.put(TrialStore.of(file), "name", trial))
                .isInstanceOf(CheckpointException.class).hasMessageContaining("the result of trial 7 cannot be kept")
                .hasMessageContaining("FileAlreadyExistsException: " + file);
    }

    @Test
    void drawsFromAGridThatIsTooLargeToTryAll() {
        try (Scope scope = Scope.open("test")) {
            Search large = Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy).seed(3)
                    .over("width", IntStream.range(4, 1004).mapToObj(Integer::toString).toArray(String[]::new))
                    .over(Search.RATE, IntStream.range(1, 1001).mapToObj(i -> "0.0" + i).toArray(String[]::new));
            for (int i = 0; i < 4; i++) {
                large.over("unused" + i, IntStream.range(0, 1000).mapToObj(Integer::toString).toArray(String[]::new));
            }
            TensorDataset train = points(0, 40);
            TensorDataset heldOut = points(40, 20);
            SearchResult drawn = large.random(5).run(train, heldOut, 2);
            assertThat(drawn.trials()).hasSize(5).allMatch(t -> t.settings().keySet().iterator().next()
                    .equals("width"));
            assertThat(drawn.trials().stream().map(Trial::settings).distinct()).hasSize(5);
            assertThat(losses(large.random(5).run(train, heldOut, 1))).isEqualTo(losses(drawn));
            String[] many = "1,".repeat(2000).split(",");
            assertThatThrownBy(() -> Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy)
                    .over("a", many).over("b", many).run(train, heldOut, 1))
                    .isInstanceOf(TensorException.class).hasMessageContaining("draw some with random(n)");
        }
    }

    @Test
    void triesEachCombinationOnceWhenAllAreDrawn() {
        try (Scope scope = Scope.open("test")) {
            SearchResult all = search().random(100).run(points(0, 40), points(40, 20), 2);
            assertThat(all.trials().stream().filter(t -> t.epochs() == 1).map(Trial::settings).distinct()).hasSize(6);
        }
    }

    @Test
    void endsAllTrialsBeforeItFails() throws InterruptedException {
        try (Scope scope = Scope.open("test")) {
            // The first trial fails at once; the others would take hours.
            assertThatThrownBy(() -> Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy)
                    .over("width", "many", "4", "16").epochs(10_000_000).listener(_ -> {
                        throw new IllegalStateException("the listener fails");
                    }).run(points(0, 40), points(40, 20), 3)).hasMessage("the listener fails");
            for (Thread thread : Thread.getAllStackTraces().keySet()) {
                // A thread whose trial has ended may still be on its way out.
                assertThat(!thread.getName().startsWith("trial-") || thread.join(Duration.ofSeconds(20))).isTrue();
            }
        }
    }

    /** The second trial waits for an example until the first one ends the search. */
    @Test
    void keepsNoResultOfATrialThatItStops() {
        try (Scope scope = Scope.open("test")) {
            TensorDataset points = points(0, 40);
            CountDownLatch waits = new CountDownLatch(1);
            Dataset train = new Dataset() {
                @Override
                public int size() {
                    return points.size();
                }

                @Override
                public List<Field> fields() {
                    return points.fields();
                }

                @Override
                public void write(int index, Example target) throws Exception {
                    if (Thread.currentThread().getName().equals("trial-1")) {
                        waits.countDown();
                        new CountDownLatch(1).await();
                    }
                    points.write(index, target);
                }
            };
            List<String> kept = new CopyOnWriteArrayList<>();
            TrialStore store = new TrialStore() {
                @Override
                public String read(String name) {
                    return null;
                }

                @Override
                public void write(String name, String text) {
                    kept.add(text);
                }
            };
            TrialTraining training = new TrialTraining(Hidden.class.getName(), Map.of("width", "4"),
                    Loss::crossEntropy, null, 1);
            List<Trial.Plan> plans = List.of(new Trial.Plan(0, Map.of(), 1), new Trial.Plan(1, Map.of(), 1));
            assertThatThrownBy(() -> training.run(plans, train, points, "", 2, 1, store, () -> {
                try {
                    waits.await();
                } catch (InterruptedException e) {
                    throw new AssertionError(e);
                }
                throw new IllegalStateException("the search ends");
            }, _ -> { })).hasMessage("the search ends");
            assertThat(kept).isEmpty();
        }
    }

    @Test
    void leavesNoDraftOfAResultThatCannotBeKept(@TempDir Path directory) throws IOException {
        Files.createDirectories(directory.resolve("trial/folder"));
        assertThatThrownBy(() -> TrialStore.of(directory).write("trial", "text")).isInstanceOf(IOException.class);
        assertThat(directory.toFile().list()).containsExactly("trial");
    }

    @Test
    void takesAnyExceptionOfAModelAsTheTrialsProblem() {
        try (Scope scope = Scope.open("test")) {
            SearchResult result = Search.of(ModelDescription.of(Broken.class, Map.of()), Loss::crossEntropy)
                    .over(Search.RATE, "0.1", "0.01").run(points(0, 40), points(40, 20), 2);
            assertThat(result.trials()).hasSize(2).allMatch(t -> t.problem().contains("Index 7 out of bounds"));
        }
    }

    @Test
    void takesAnErrorOfAModelAsTheTrialsProblem() {
        try (Scope scope = Scope.open("test")) {
            SearchResult result = Search.of(ModelDescription.of(Asserting.class, Map.of()), Loss::crossEntropy)
                    .over("width", "3", "4").run(points(0, 40), points(40, 20), 1);
            assertThat(result.best().settings()).containsEntry("width", "4");
            assertThat(result.trials().getLast().problem()).contains("the width must be even");
        }
    }

    /** The best of the first round diverges when it is trained for longer. */
    @Test
    void findsTheBestOfTheTrialsThatSucceeded() {
        SearchResult result = Search.of(ModelDescription.of(Hidden.class, Map.of()), Loss::crossEntropy)
                .over("width", "4", "8", "16").epochs(3).halving(3).run(null, "", (plans, ended) -> plans.forEach(p ->
                        ended.accept(new Trial(p.number(), p.settings(), p.epochs(), p.epochs() == 3
                                ? Double.POSITIVE_INFINITY : 0.5 + p.number(), Double.NaN, 1,
                                p.epochs() == 3 ? "diverged" : null))));
        assertThat(result.trials()).hasSize(4);
        assertThat(result.best()).isEqualTo(new Trial(0, Map.of("width", "4"), 1, 0.5, Double.NaN, 1, null));
        assertThat(result.trials().getLast().problem()).isEqualTo("diverged");
    }

    @Test
    void refusesWhatIsNoSearch() {
        assertThatThrownBy(() -> search().over("rate")).isInstanceOf(TensorException.class)
                .hasMessageContaining("the setting rate needs values");
        assertThatThrownBy(() -> search().halving(1)).hasMessageContaining("the factor must be above 1, got 1");
        assertThatThrownBy(() -> search().run(points(0, 2), points(0, 2), 0)).hasMessageContaining("got 0");
    }
}
