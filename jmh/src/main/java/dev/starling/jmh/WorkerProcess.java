package dev.starling.jmh;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/**
 * The parent's view of a {@link Worker}, which is started with flags and this process's class path. The worker is
 * stopped by a signal whenever it has no order, so that its spinning threads take nothing from the one being measured.
 */
final class WorkerProcess implements AutoCloseable {
    /** How long an answer may take in addition to the time for which the order runs the workload. */
    private static final Duration ANSWER_TIMEOUT = Duration.ofMinutes(5);

    private final Contender contender;
    private final Map<String, String> settings;
    private final Process process;
    private final Writer orders;
    private final BufferedReader answers;
    /** A stopped process would outlive a benchmark that a signal ends. */
    private final Thread hook;

    /** Starts a process with these of the JVM's flags. */
    WorkerProcess(Contender contender, int threads, Clock clock, Map<String, String> settings, List<String> flags) {
        this.contender = contender;
        this.settings = settings;
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Worker.class.getName()));
        command.addAll(List.of(contender.name(), Integer.toString(threads), clock.name()));
        ProcessBuilder builder = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD);
        builder.environment().keySet().removeIf(name -> name.startsWith("OPENBLAS_"));
        builder.environment().putAll(settings);
        try {
            process = builder.start();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot start " + command.getFirst(), e);
        }
        orders = process.outputWriter(StandardCharsets.UTF_8);
        answers = process.inputReader(StandardCharsets.UTF_8);
        hook = new Thread(process::destroyForcibly, "starling-worker-shutdown");
        try {
            Runtime.getRuntime().addShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            process.destroyForcibly();
            throw shuttingDown;
        }
    }

    /** Returns the flags of this JVM. */
    static List<String> flags() {
        return ManagementFactory.getRuntimeMXBean().getInputArguments();
    }

    /** Returns the flags of this JVM but those that add modules. */
    static List<String> flagsWithoutModules() {
        return flags().stream().filter(flag -> !flag.startsWith("--add-modules")).toList();
    }

    Map<String, String> settings() {
        return settings;
    }

    List<String> variants(Workload workload) {
        String answer = ask("variants " + workload.name(), 0);
        return answer.isEmpty() ? List.of() : List.of(answer.split(" "));
    }

    void prepare(Workload workload, String variant) {
        ask("prepare " + workload.name() + " " + variant, 0);
    }

    /** Runs the prepared workload for a time, then returns the time of one run, in nanoseconds. */
    long warm(long millis) {
        return Long.parseLong(ask("warm " + millis, millis));
    }

    /** Returns the time of a number of runs of the prepared workload, in nanoseconds. */
    long time(int runs) {
        return Long.parseLong(ask("time " + runs, 0));
    }

    /** Runs the prepared workload for a time; returns the nanoseconds until it reached 95 % of its steady speed. */
    long settle(long millis) {
        return Long.parseLong(ask("settle " + millis, millis));
    }

    void release() {
        ask("release", 0);
    }

    @Override
    public void close() {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            return;
        }
        process.destroyForcibly();
    }

    private String ask(String order, long millis) {
        CompletableFuture<Void> late = new CompletableFuture<Void>().completeOnTimeout(null,
            ANSWER_TIMEOUT.toMillis() + 2 * millis, TimeUnit.MILLISECONDS);
        late.thenRun(process::destroyForcibly);
        signal("CONT");
        try {
            return answer(order, late);
        } finally {
            late.cancel(false);
            signal("STOP");
        }
    }

    private void signal(String name) {
        if (!process.isAlive()) {
            return;
        }
        try {
            new ProcessBuilder("kill", "-" + name, Long.toString(process.pid())).inheritIO().start().waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot run kill, which stops the processes that are not measured", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
    }

    private String answer(String order, CompletableFuture<Void> late) {
        try {
            orders.write(order + "\n");
            orders.flush();
            for (String line = answers.readLine(); line != null; line = answers.readLine()) {
                if (line.startsWith(Worker.MARK + Worker.FAILURE)) {
                    throw new IllegalStateException(contender + ": " + order + ": " + line.substring(2));
                }
                if (line.startsWith(Worker.MARK)) {
                    return line.substring(Worker.MARK.length());
                }
            }
        } catch (IOException broken) {
            throw new IllegalStateException(contender + "'s process ended at: " + order, broken);
        }
        throw new IllegalStateException(contender + (late.isDone() ? " did not answer in time: "
            : "'s process ended at: ") + order);
    }
}
