package dev.starling.study;

import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.launch.Launch;
import dev.starling.distributed.launch.LaunchException;
import dev.starling.distributed.launch.Launcher;
import dev.starling.errors.StarlingException;
import dev.starling.nn.data.LabelledImages;
import dev.starling.samples.train.Clusters;
import dev.starling.study.Result.Outcome;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.IntStream;

/**
 * Trains one network by several setups in turn, each in its own processes, and measures speed and accuracy. Used by one
 * thread.
 */
final class Study {
    /** Time beyond the training limit, for processes to start, read images and end. */
    private static final Duration STARTUP_ALLOWANCE = Duration.ofMinutes(5);

    private final LabelledImages heldOut;
    private final Recipe recipe;
    private final Path directory;
    private final PrintStream log;

    /**
     * Prepares a study.
     *
     * @param train images to train on; their number is the recipe's
     * @param heldOut images to measure the accuracy on
     * @param directory for temporary files; the caller removes it
     * @param log receives lines of progress
     */
    Study(LabelledImages train, LabelledImages heldOut, Recipe recipe, Path directory, PrintStream log) {
        this.heldOut = heldOut;
        this.recipe = recipe;
        this.directory = directory;
        this.log = log;
        Images.write(trainFile(), train, recipe.images());
    }

    private Path trainFile() {
        return directory.resolve("train.bin");
    }

    /**
     * Measures setups, each {@code runs} times with the seeds 1, 2, …; runs that a result has already are not repeated.
     * If a run fails, the remaining runs of its row are skipped and the next row is measured.
     *
     * @param known the runs measured before
     * @param after receives the result after each run
     * @return the result with all runs
     */
    Result measure(List<Setup> setups, int runs, Result known, Consumer<Result> after) throws InterruptedException {
        Result result = known;
        for (Setup setup : setups) {
            for (int seed = 1; seed <= runs; seed++) {
                Outcome before = result.outcome(setup);
                long wanted = seed;
                if (before.runs().stream().anyMatch(run -> run.seed() == wanted)) {
                    continue;
                }
                log.printf("%s, run %d of %d%n", setup.title(), seed, runs);
                Outcome outcome = run(setup, seed, result.machine(), before.runs());
                result = result.with(outcome);
                after.accept(result);
                if (outcome.problem() != null) {
                    log.println(setup.title() + ": " + outcome.problem());
                    break;
                }
            }
        }
        return result;
    }

    private Outcome run(Setup setup, long seed, Machine machine, List<Run> before) throws InterruptedException {
        if (setup == Setup.GPU && machine.gpu() == null) {
            return new Outcome(setup, before, "no GPU on this machine");
        }
        try {
            List<Run> runs = new ArrayList<>(before);
            runs.add(run(setup, seed));
            return new Outcome(setup, List.copyOf(runs), null);
        } catch (LaunchException e) {
            return new Outcome(setup, before, "failed: " + reason(e));
        } catch (TimeoutException e) {
            return new Outcome(setup, before, "did not end within " + timeout().toMinutes() + " minutes");
        } catch (StarlingException | IllegalStateException | UncheckedIOException e) {
            return new Outcome(setup, before, "failed: " + e.getMessage());
        }
    }

    /** Returns the last line of the failed process's output that is not part of a stack trace. */
    private static String reason(LaunchException e) {
        return e.lastLines().stream().map(String::strip).filter(line -> !line.isEmpty() && !line.startsWith("at ")
                && !line.startsWith("...")).reduce((a, b) -> b).orElse(e.getMessage());
    }

    private Duration timeout() {
        return STARTUP_ALLOWANCE.plusMillis((long) (1000 * recipe.limitSeconds()));
    }

    private Run run(Setup setup, long seed) throws TimeoutException, InterruptedException {
        Path own = directory.resolve(setup.label() + '-' + seed);
        Plan plan = new Plan(setup, recipe, seed, trainFile().toString(), directory.resolve("parquet").toString(),
                own.toString());
        Path file = own.resolve("plan.json");
        Json.write(file, plan);
        long begin = System.nanoTime();
        try (Launch launch = launcher(setup, file).start()) {
            launch.await(timeout());
        }
        double whole = since(begin);
        List<Track> tracks = IntStream.range(0, setup.workers()).mapToObj(rank -> Json.read(plan.track(rank),
                Track.class)).toList();
        return examined(setup, plan, tracks, whole);
    }

    /** Spark starts its executors itself. */
    private Launcher launcher(Setup setup, Path plan) {
        Class<?> main = setup == Setup.SPARK_2 ? SparkMember.class : Member.class;
        Launcher launcher = Launcher.ofJava(main, plan.toString()).output(Launcher.Output.FIRST_RANK)
                .output(log, log);
        return setup.workers() == 1 || setup == Setup.SPARK_2 ? launcher
                : launcher.processes(setup.workers() + setup.servers()).servers(setup.servers())
                        .coordinator(Clusters.coordinator(Member.TRANSPORT, CoordinatorConfig.of(setup.workers()
                                + setup.servers(), setup.isSynchronous() ? Coordinator.OnLoss.END
                                : Coordinator.OnLoss.REFORM), Member.SILENCE));
    }

    private Run examined(Setup setup, Plan plan, List<Track> tracks, double whole) {
        long begin = System.nanoTime();
        List<Run.Point> points = new ArrayList<>();
        try (Examiner examiner = new Examiner(recipe.width(), heldOut)) {
            for (Track.Mark mark : tracks.getFirst().marks()) {
                Path weights = Path.of(plan.directory()).resolve(mark.file());
                points.add(new Run.Point(mark.images(), mark.seconds(), examiner.accuracy(weights)));
                Files.delete(weights);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        double seconds = tracks.stream().mapToDouble(Track::seconds).max().orElseThrow();
        long images = setup.isSynchronous() ? tracks.getFirst().images()
                : tracks.stream().mapToLong(Track::images).sum();
        return new Run(plan.seed(), images / seconds, seconds, since(begin), whole, List.copyOf(points));
    }

    private static double since(long beginNs) {
        return (System.nanoTime() - beginNs) / 1e9;
    }
}
