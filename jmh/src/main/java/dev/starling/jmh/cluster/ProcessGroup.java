package dev.starling.jmh.cluster;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/**
 * The processes of one variant of an implementation. They are stopped by a signal whenever they have no order, so that
 * spinning threads take nothing from the processes being measured.
 */
final class ProcessGroup implements AutoCloseable {
    /** How long an answer may take in addition to the time that the runs are to take. */
    private static final Duration ANSWER_TIMEOUT = Duration.ofSeconds(120);

    private static final int JIT_WARM_UP_RUNS = 20_000;
    private static final int JIT_WARM_UP_STEP = 250;
    private static final long MAX_JIT_WARM_UP_NS = 15_000_000_000L;
    private static final int SETTLED_SECONDS = 6;
    private static final double STEADY = 0.98;
    private static final long MAX_SETTLING_NS = 60_000_000_000L;
    private static final long KEEP_ALIVE_INTERVAL_NS = 2_000_000_000L;
    private static final long KEEP_ALIVE_MILLIS = 30;
    private static final int MAX_REPORTED_LINES = 20;

    private final Implementation implementation;
    private final Variant variant;
    private final int world;
    private final Path log;
    private final List<Process> processes = new CopyOnWriteArrayList<>();
    private final List<Writer> orders = new CopyOnWriteArrayList<>();
    private final List<BufferedReader> answers = new ArrayList<>();
    private final List<String> printed = new ArrayList<>();
    /** Stopped processes would outlive a benchmark that a signal ends. */
    private final Thread hook = new Thread(this::end, "starling-group-shutdown");
    /** The time in which an answer did not come, or {@code null}. */
    private volatile Duration exceeded;
    private boolean stopped;
    private long lastRunNs = System.nanoTime();

    /** Starts the processes. What they print besides answers goes to files in the directory, which they share. */
    ProcessGroup(Implementation implementation, Variant variant, int world, Path directory, Path openMpi,
            Hosts hosts) {
        this.implementation = implementation;
        this.variant = variant;
        this.world = world;
        log = directory.resolve("log");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            Files.createDirectories(directory);
            for (List<String> command : implementation.commands(variant, world, directory, openMpi, hosts)) {
                ProcessBuilder builder = new ProcessBuilder(command).redirectError(
                    ProcessBuilder.Redirect.appendTo(log.toFile()));
                builder.environment().putAll(variant.environment());
                Process process = builder.start();
                processes.add(process);
                orders.add(process.outputWriter(StandardCharsets.UTF_8));
                answers.add(process.inputReader(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            close();
            throw new UncheckedIOException(implementation + " : cannot start its processes", e);
        }
    }

    Implementation implementation() {
        return implementation;
    }

    Variant variant() {
        return variant;
    }

    int world() {
        return world;
    }

    /** Runs a number of times; returns the nanoseconds of one run on the slowest member. */
    double time(Measure measure, long bytes, int runs) {
        return time(measure, bytes, runs, 0);
    }

    /** Runs a number of times that should take {@code millis}; returns the nanoseconds of one run as above. */
    double time(Measure measure, long bytes, int runs, long millis) {
        resume();
        Duration limit = ANSWER_TIMEOUT.plusMillis(2 * millis);
        CompletableFuture<Void> late = new CompletableFuture<Void>().completeOnTimeout(null, limit.toMillis(),
            TimeUnit.MILLISECONDS);
        late.thenRun(() -> kill(limit));
        try {
            for (Writer order : orders) {
                order.write(measure.label() + " " + bytes + " " + runs + "\n");
                order.flush();
            }
            double slowest = 0;
            for (BufferedReader answer : answers) {
                slowest = Math.max(slowest, read(answer));
            }
            return slowest;
        } catch (IOException e) {
            throw failure(e);
        } finally {
            late.cancel(false);
            stop();
        }
    }

    /** Lets the members keep their connections alive, if their last order was some time ago. */
    void keepAlive() throws InterruptedException {
        if (implementation.isOurs() && System.nanoTime() - lastRunNs > KEEP_ALIVE_INTERVAL_NS) {
            resume();
            Thread.sleep(KEEP_ALIVE_MILLIS);
            stop();
        }
    }

    /** Lets stopped processes continue. Others get no signal: {@code mpirun} may still be starting the members. */
    private void resume() {
        if (stopped) {
            signal("CONT");
            stopped = false;
        }
    }

    private void stop() {
        stopped = true;
        signal("STOP");
        lastRunNs = System.nanoTime();
    }

    /** Runs until the members' JIT compilers have had time to compile, even on a busy machine. */
    void warmUpJit(Measure measure, long bytes) {
        long begin = System.nanoTime();
        for (int runs = 0; !implementation.isOpenMpi() && runs < JIT_WARM_UP_RUNS
                && System.nanoTime() - begin < MAX_JIT_WARM_UP_NS; runs += JIT_WARM_UP_STEP) {
            time(measure, bytes, JIT_WARM_UP_STEP);
        }
    }

    /** Runs for a time, then returns the nanoseconds of one run. */
    double warm(Measure measure, long bytes, long millis) {
        long begin = System.nanoTime();
        long enough = millis * 1_000_000;
        int runs = 2;
        double nanos = time(measure, bytes, runs);
        while (System.nanoTime() - begin < enough) {
            runs = (int) Math.clamp(Math.min(runs * 4L, enough / 4 / nanos), 2, 1_000_000);
            nanos = time(measure, bytes, runs, millis);
        }
        return nanos;
    }

    /**
     * Runs until it has not become faster for some seconds, then returns the nanoseconds of one run. The members' JIT
     * compilers compete with the code that they compile, so this takes several times longer than in a single process.
     */
    double settle(Measure measure, long bytes) {
        return settle(measure, bytes, 0);
    }

    /** Runs at least for {@code leastSeconds}, then as {@link #settle(Measure, long)} does. */
    double settle(Measure measure, long bytes, int leastSeconds) {
        long begin = System.nanoTime();
        long least = begin + TimeUnit.SECONDS.toNanos(leastSeconds);
        double nanos = time(measure, bytes, 2);
        double best = nanos;
        for (int seconds = 0; (seconds < SETTLED_SECONDS || System.nanoTime() - least < 0)
                && System.nanoTime() - begin < MAX_SETTLING_NS; seconds++) {
            nanos = time(measure, bytes, (int) Math.clamp(1e9 / nanos, 2, 1_000_000));
            if (nanos < best * STEADY) {
                best = nanos;
                seconds = 0;
            }
        }
        return nanos;
    }

    private double read(BufferedReader answer) throws IOException {
        for (String line = answer.readLine(); line != null; line = answer.readLine()) {
            if (line.startsWith(MemberProcess.MARK)) {
                return Double.parseDouble(line.substring(MemberProcess.MARK.length()));
            }
            printed.add(line);
        }
        throw failure(null);
    }

    private IllegalStateException failure(IOException cause) {
        String last = "";
        try (Stream<String> lines = Files.lines(log)) {
            List<String> all = Stream.concat(printed.stream(), lines).filter(line -> !line.isBlank()).toList();
            last = String.join("\n", all.subList(Math.max(0, all.size() - MAX_REPORTED_LINES), all.size()));
        } catch (IOException | UncheckedIOException e) {
            last = e.toString();
        }
        String variantName = variant.name().isEmpty() ? "" : " " + variant.name();
        return new IllegalStateException(implementation.label() + variantName + " between " + world
            + " processes ended early, " + ends() + ":\n" + (last.isEmpty() ? "without a word" : last), cause);
    }

    /** Returns how the processes have ended. */
    private String ends() {
        List<String> ends = new ArrayList<>();
        for (Process process : processes) {
            try {
                // A process that closed its output is about to end.
                ends.add(process.waitFor(1, TimeUnit.SECONDS) ? "exit code " + process.exitValue() : "running");
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                ends.add("unknown");
            }
        }
        Duration limit = exceeded;
        return (limit != null ? "without an answer for " + limit.toSeconds() + " s, " : "")
            + String.join(", ", ends);
    }

    private void signal(String name) {
        List<String> command = new ArrayList<>(List.of("kill", "-" + name));
        all().filter(ProcessHandle::isAlive).forEach(process -> command.add(Long.toString(process.pid())));
        if (command.size() == 2) {
            return;
        }
        try {
            new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start().waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException("cannot run kill, which stops the processes that are not measured", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
    }

    private Stream<ProcessHandle> all() {
        return processes.stream().flatMap(p -> Stream.concat(Stream.of(p.toHandle()), p.descendants()));
    }

    private void kill(Duration limit) {
        exceeded = limit;
        all().toList().forEach(ProcessHandle::destroyForcibly);
    }

    /** Lets the members end by themselves, then kills those that have not ended. */
    @Override
    public void close() {
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            return;
        }
        end();
    }

    private void end() {
        signal("CONT");
        List<ProcessHandle> started = all().toList();
        for (Writer order : orders) {
            try {
                order.close();
            } catch (IOException ended) {
                continue;
            }
        }
        long end = System.nanoTime() + Duration.ofSeconds(5).toNanos();
        for (Process process : processes) {
            try {
                process.waitFor(Math.max(0, end - System.nanoTime()), TimeUnit.NANOSECONDS);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        started.forEach(ProcessHandle::destroyForcibly);
    }
}
