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
 * The processes of one party in one of its ways. They are stopped whenever nothing is asked of them, so that what waits
 * by spinning takes nothing from whoever is being measured.
 */
final class Crew implements AutoCloseable {
    private static final Duration PATIENCE = Duration.ofSeconds(120);

    private static final int SEASON = 20_000;
    private static final int SEASON_STEP = 250;
    private static final long MAX_SEASON_NS = 15_000_000_000L;
    private static final int SETTLED = 6;
    private static final double STEADY = 0.98;
    private static final long MAX_SETTLING_NS = 60_000_000_000L;
    private static final long BREATH_EVERY_NS = 2_000_000_000L;
    private static final long BREATH_MILLIS = 30;

    private final Party party;
    private final Way way;
    private final int world;
    private final Path log;
    private final List<Process> processes = new CopyOnWriteArrayList<>();
    private final List<Writer> orders = new CopyOnWriteArrayList<>();
    private final List<BufferedReader> answers = new ArrayList<>();
    /** Stopped processes would outlive a benchmark that is ended by a signal. */
    private final Thread hook = new Thread(this::end, "starling-crew-shutdown");
    private long lastRunNs = System.nanoTime();

    /** Starts the processes; what they print besides answers goes to files in the directory, which they share. */
    Crew(Party party, Way way, int world, Path directory, Path openMpi) {
        this.party = party;
        this.way = way;
        this.world = world;
        log = directory.resolve("log");
        Runtime.getRuntime().addShutdownHook(hook);
        try {
            Files.createDirectories(directory);
            for (List<String> command : party.commands(way, world, directory, openMpi)) {
                ProcessBuilder builder = new ProcessBuilder(command).redirectError(
                    ProcessBuilder.Redirect.appendTo(log.toFile()));
                builder.environment().putAll(way.environment());
                Process process = builder.start();
                processes.add(process);
                orders.add(process.outputWriter(StandardCharsets.UTF_8));
                answers.add(process.inputReader(StandardCharsets.UTF_8));
            }
        } catch (IOException e) {
            close();
            throw new UncheckedIOException(party + " cannot be started", e);
        }
    }

    Party party() {
        return party;
    }

    Way way() {
        return way;
    }

    int world() {
        return world;
    }

    /** Returns the nanoseconds of one of so many runs, on the slowest member. */
    double time(Measure measure, long bytes, int runs) {
        signal("CONT");
        CompletableFuture<Void> late = new CompletableFuture<Void>().completeOnTimeout(null, PATIENCE.toSeconds(),
            TimeUnit.SECONDS);
        late.thenRun(this::kill);
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
            signal("STOP");
            lastRunNs = System.nanoTime();
        }
    }

    /** Lets the members keep their connections alive, if they have not been asked for anything for long. */
    void breathe() throws InterruptedException {
        if (party.isOurs() && System.nanoTime() - lastRunNs > BREATH_EVERY_NS) {
            signal("CONT");
            Thread.sleep(BREATH_MILLIS);
            signal("STOP");
            lastRunNs = System.nanoTime();
        }
    }

    /** Runs until the members' JVMs have had time to compile, however busy the machine is. */
    void season(Measure measure, long bytes) {
        long begin = System.nanoTime();
        for (int runs = 0; !party.isOpenMpi() && runs < SEASON && System.nanoTime() - begin < MAX_SEASON_NS;
                runs += SEASON_STEP) {
            time(measure, bytes, SEASON_STEP);
        }
    }

    /** Runs for so long, then returns the nanoseconds of one run. */
    double warm(Measure measure, long bytes, long millis) {
        long begin = System.nanoTime();
        long enough = millis * 1_000_000;
        int runs = 2;
        double nanos = time(measure, bytes, runs);
        while (System.nanoTime() - begin < enough) {
            runs = (int) Math.clamp(Math.min(runs * 4L, enough / 4 / nanos), 2, 1_000_000);
            nanos = time(measure, bytes, runs);
        }
        return nanos;
    }

    /**
     * Runs until it has become no faster for some seconds, then returns the nanoseconds of one run. The members'
     * compilers share the processors with what they compile, so that this takes several times longer than by oneself.
     */
    double settle(Measure measure, long bytes) {
        long begin = System.nanoTime();
        double nanos = time(measure, bytes, 2);
        double best = nanos;
        for (int seconds = 0; seconds < SETTLED && System.nanoTime() - begin < MAX_SETTLING_NS; seconds++) {
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
            if (line.startsWith(CrewMember.MARK)) {
                return Double.parseDouble(line.substring(CrewMember.MARK.length()));
            }
        }
        throw failure(null);
    }

    private IllegalStateException failure(IOException cause) {
        String last = "";
        try (Stream<String> lines = Files.lines(log)) {
            List<String> all = lines.filter(line -> !line.isBlank()).toList();
            last = String.join("\n", all.subList(Math.max(0, all.size() - 20), all.size()));
        } catch (IOException | UncheckedIOException e) {
            last = e.toString();
        }
        return new IllegalStateException(party.label() + " between " + world + " processes ended early:\n" + last,
            cause);
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
            throw new UncheckedIOException("cannot run kill, which stops whoever is not being measured", e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted", e);
        }
    }

    private Stream<ProcessHandle> all() {
        return processes.stream().flatMap(p -> Stream.concat(Stream.of(p.toHandle()), p.descendants()));
    }

    private void kill() {
        all().toList().forEach(ProcessHandle::destroyForcibly);
    }

    /** Lets the members end by themselves, then ends those that have not. */
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
        List<ProcessHandle> everyone = all().toList();
        for (Writer order : orders) {
            try {
                order.close();
            } catch (IOException alreadyGone) {
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
        everyone.forEach(ProcessHandle::destroyForcibly);
    }
}
