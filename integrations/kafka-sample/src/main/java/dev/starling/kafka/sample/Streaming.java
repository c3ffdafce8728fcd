package dev.starling.kafka.sample;

import dev.starling.errors.StarlingException;
import dev.starling.kafka.KafkaCluster;
import dev.starling.kafka.KafkaLearner;
import dev.starling.kafka.KafkaScorer;
import dev.starling.kafka.LearnerReport;
import dev.starling.kafka.ModelPublisher;
import dev.starling.kafka.ModelTopic;
import dev.starling.kafka.RowCodec;
import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Generator;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import java.util.stream.Stream;
import org.apache.kafka.common.KafkaException;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** A broker, a feed, a scorer and a learner in one process: it scores, learns and replaces models concurrently. */
@Command(name = "stream", description = "Score and learn from a stream of records over a Kafka broker in this process. "
        + "Half way, the rule to be learned changes; the scorer swaps in each better model.",
        mixinStandardHelpOptions = true)
public final class Streaming implements Callable<Integer> {
    private static final Logger LOG = Logger.getLogger("dev.starling.kafka");
    private static final String MODELS = "models";
    private static final String NAME = "side";
    private static final Duration LAST_RESULTS = Duration.ofSeconds(60);

    @Option(names = "--seconds", paramLabel = "S", defaultValue = "30",
            description = "How long records arrive (default: ${DEFAULT-VALUE}).")
    private int seconds;

    @Option(names = "--rate", paramLabel = "R", defaultValue = "1000",
            description = "Records per second (default: ${DEFAULT-VALUE}).")
    private int rate;

    @Option(names = "--records", paramLabel = "N", description = "Records in all (default: seconds times rate).")
    private Long records;

    @Option(names = "--json", description = "Print the result as one JSON object, the last line of standard output.")
    private boolean json;

    @Spec
    private CommandSpec spec;

    private final List<Throwable> failures = new ArrayList<>();
    private final CountDownLatch over = new CountDownLatch(1);
    private volatile boolean interrupted;

    /** Runs the command and ends the process with its exit code. */
    public static void main(String[] arguments) {
        System.exit(new CommandLine(new Streaming()).execute(arguments));
    }

    @Override
    public Integer call() {
        long all = records == null ? (long) seconds * rate : records;
        if (seconds < 1 || rate < 1 || all < 1 || all > Integer.MAX_VALUE) {
            throw new ParameterException(spec.commandLine(), "--seconds, --rate and --records must be 1 or more, "
                    + "records at most " + Integer.MAX_VALUE);
        }
        // What is announced and served can be read in the table.
        LOG.setLevel(Level.WARNING);
        Thread hook = new Thread(this::interrupt, "starling-stream-interrupt");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            Path directory = Files.createTempDirectory("starling-stream-");
            try {
                return stream(directory, all);
            } finally {
                delete(directory);
            }
        } catch (IOException | UncheckedIOException | StarlingException | KafkaException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return 1;
        } finally {
            over.countDown();
        }
    }

    /** Ends the run as if its time were over, and waits until temporary files are deleted. */
    private void interrupt() {
        interrupted = true;
        try {
            over.await(LAST_RESULTS.toSeconds(), TimeUnit.SECONDS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private int stream(Path directory, long all) throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        out.println("Starting a Kafka broker in this process");
        out.flush();
        Map<String, String> described = ModelDescription.of(Classifier.class, Map.of("hidden", "16")).metadata();
        Points points = new Points(all / 2);
        try (EmbeddedBroker broker = EmbeddedBroker.start()) {
            broker.topics(Map.of(Feed.POINTS, 2, Feed.LABELLED, 2, "scores", 1, "dead", 1, MODELS, 1));
            KafkaCluster cluster = KafkaCluster.at(broker.servers());
            ModelTopic models = ModelTopic.of(MODELS, NAME);
            try (Layer model = ModelDescription.of(described).build(Classifier.class.getClassLoader(),
                    Generator.seeded(1));
                    Optimizer optimizer = Adam.over(model).rate(0.01).build()) {
                try (ModelPublisher publisher = ModelPublisher.of(cluster, MODELS, directory)) {
                    publisher.publish(NAME, 0, model, described);
                }
                Feed feed = new Feed(broker.servers(), points, all, rate);
                try (KafkaScorer scorer = KafkaScorer.of(cluster, RowCodec.floats(Points.COLUMNS)).from(Feed.POINTS)
                        .to("scores").deadLetters("dead").model(models).open();
                        KafkaLearner learner = KafkaLearner.of(cluster, Feed.LABELLED,
                                RowCodec.floats(Points.COLUMNS + 1)).model(model, Loss.crossEntropy(), optimizer)
                                .classes(2).holdOut(10, 200, 50).margin(0.05)
                                .checkpointEvery(1_000_000, Duration.ofSeconds(1))
                                .checkpoints(directory.resolve("checkpoints")).publish(models, directory, described)
                                .open();
                        Results results = new Results(broker.servers(), "scores", points)) {
                    return watch(feed, scorer, learner, results);
                }
            }
        }
    }

    private int watch(Feed feed, KafkaScorer scorer, KafkaLearner learner, Results results) {
        PrintWriter out = spec.commandLine().getOut();
        List<Thread> threads = List.of(start("feed", feed), start("scorer", scorer::run),
                start("learner", learner::run));
        out.println("Seconds    Arrived     Scored  Version  Right of scored   Learned  Held-out loss  Served");
        long start = System.nanoTime();
        int second = 0;
        long doneNs = Long.MAX_VALUE;
        double accuracy = Double.NaN;
        while (!interrupted && failures().isEmpty() && System.nanoTime() < doneNs
                && !(feed.isDone() && results.count() >= feed.written())) {
            results.read(Duration.ofMillis(50));
            if (feed.isDone() && doneNs == Long.MAX_VALUE) {
                doneNs = System.nanoTime() + LAST_RESULTS.toNanos();
            }
            if (System.nanoTime() - start > (second + 1) * 1_000_000_000L) {
                second++;
                accuracy = results.recentAccuracy();
                LearnerReport learned = learner.report();
                out.printf(Locale.ROOT, "%7d %10d %10d %8d %16s %9d %14s %7s%n", second, feed.written(),
                        results.count(), scorer.serving().version(), shown("%.1f %%", accuracy * 100),
                        learned.records(), shown("%.4f", learned.loss()), shown("%.4f", learned.servedLoss()));
                out.flush();
            }
        }
        long version = scorer.serving().version();
        feed.stop();
        learner.close();
        scorer.close();
        threads.forEach(Streaming::join);
        return end(feed.written(), results, version, learner.report(), accuracy);
    }

    private int end(long arrived, Results results, long version, LearnerReport learned, double accuracy) {
        PrintWriter out = spec.commandLine().getOut();
        if (results.count() < arrived && !interrupted && failures().isEmpty()) {
            spec.commandLine().getErr().printf(Locale.ROOT,
                    "starling: %,d results are missing after %d s; choose a lower --rate%n",
                    arrived - results.count(), LAST_RESULTS.toSeconds());
        }
        for (Throwable failure : failures()) {
            spec.commandLine().getErr().println("starling: " + (failure instanceof Error ? failure
                    : failure.getMessage()));
        }
        boolean whole = results.count() == arrived && results.distinct() == arrived;
        out.printf(Locale.ROOT, "%,d records arrived, %,d results for %,d different ones; %,d records learned; "
                + "version %d serves%n", arrived, results.count(), results.distinct(), learned.records(), version);
        if (json) {
            out.printf(Locale.ROOT, "{\"arrived\": %d, \"results\": %d, \"distinct\": %d, \"learned\": %d, "
                    + "\"version\": %d, \"accuracy\": %s}%n", arrived, results.count(), results.distinct(),
                    learned.records(), version, Double.isNaN(accuracy) ? "null" : Double.toString(accuracy));
        }
        out.flush();
        return failures().isEmpty() && (whole || interrupted) ? 0 : 1;
    }

    private Thread start(String name, Runnable work) {
        return Thread.ofPlatform().name("starling-" + name).start(() -> {
            try {
                work.run();
            } catch (RuntimeException | Error e) {
                synchronized (failures) {
                    failures.add(e);
                }
            }
        });
    }

    private List<Throwable> failures() {
        synchronized (failures) {
            return List.copyOf(failures);
        }
    }

    /** Formats a number; NaN is a dash. */
    private static String shown(String format, double number) {
        return Double.isNaN(number) ? "-" : String.format(Locale.ROOT, format, number);
    }

    private static void join(Thread thread) {
        try {
            thread.join(LAST_RESULTS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> files = Files.walk(directory)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(file);
            }
        }
    }
}
