package dev.starling.distributed.chaos;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;

/** A process of a cluster, and what its output says; all times are {@link System#nanoTime}, one clock for a machine. */
final class ChaosProcess {
    private static final int KEPT_LINES = 40;
    /** What a launcher writes before each line. */
    private static final Pattern PREFIX = Pattern.compile("^\\[\\d+] ");
    private static final long END_S = 20;
    private static final String TAKEOVER = "takes the place of the lost coordinator, at ";

    final String name;
    final long startedNs = System.nanoTime();
    private final Process process;
    private final Thread reader;
    private final Deque<String> last = new ArrayDeque<>();
    private final List<Long> pids = new ArrayList<>();
    private String address;
    private long takeoverNs = -1;
    private int steps;
    private long lastStepNs;
    private long lastStep;
    private long firstStep = -1;
    private long firstStepNs;
    private String repeated = "";
    private int world;
    private long saved = -1;
    private Failure failure;
    private long sinceNs = Long.MAX_VALUE;
    private int stepsSince;
    private long pauseNs;
    private long firstStepSinceNs;

    /** The end of a process with an exception. */
    record Failure(long timeNs, String type, int rank, String message) { }

    private ChaosProcess(String name, Process process) {
        this.name = name;
        this.process = process;
        reader = Thread.ofPlatform().daemon().name("reader-" + name).start(this::read);
    }

    static ChaosProcess start(String name, List<String> prefix, List<String> arguments) {
        List<String> command = new ArrayList<>(prefix);
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream().filter(flag -> flag.startsWith("--"))
                .forEach(command::add);
        command.addAll(List.of("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
                "-cp", System.getProperty("java.class.path"), ChaosProgram.class.getName()));
        command.addAll(arguments);
        try {
            return new ChaosProcess(name, new ProcessBuilder(command).redirectErrorStream(true).start());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private void read() {
        try (BufferedReader lines = process.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                onLine(line);
            }
        } catch (IOException e) {
            // The process was killed while it wrote.
        }
    }

    private synchronized void onLine(String line) {
        String[] words = PREFIX.matcher(line).replaceFirst("").split(" ", 5);
        if (!words[0].equals("step") && !words[0].equals("saved")) {
            last.addLast(line);
        }
        if (last.size() > KEPT_LINES) {
            last.removeFirst();
        }
        if (line.contains(TAKEOVER)) {
            takeoverNs = System.nanoTime();
        }
        switch (words[0]) {
            case "pid" -> pids.add(Long.parseLong(words[1]));
            case "address" -> address = words[1];
            case "saved" -> saved = Long.parseLong(words[1]);
            case "failed" -> failure = new Failure(Long.parseLong(words[1]), words[2], Integer.parseInt(words[3]),
                    words[4]);
            case "step" -> onStep(Long.parseLong(words[1]), Long.parseLong(words[2]), Integer.parseInt(words[3]));
            default -> { }
        }
    }

    /** Returns the number of steps that this process, or all that it has launched, have taken. */
    synchronized int stepsOfAll() {
        return steps;
    }

    private void onStep(long timeNs, long step, int newWorld) {
        if (timeNs > sinceNs) {
            pauseNs = Math.max(pauseNs, timeNs - Math.max(lastStepNs, sinceNs));
            if (stepsSince++ == 0) {
                firstStepSinceNs = timeNs;
            }
        }
        steps++;
        if (firstStep < 0) {
            firstStep = step;
            firstStepNs = timeNs;
        } else if (step <= lastStep) {
            repeated = "step " + step + " after step " + lastStep;
        }
        lastStepNs = timeNs;
        lastStep = step;
        world = newWorld;
    }

    /** Begins to count steps and to measure pauses anew. */
    synchronized void watch(long newSinceNs) {
        sinceNs = newSinceNs;
        stepsSince = 0;
        pauseNs = 0;
    }

    /** Returns the number of steps since {@link #watch}. */
    synchronized int stepsSince() {
        return stepsSince;
    }

    /** Returns the longest time between two steps since {@link #watch}. */
    synchronized long pauseNs() {
        return pauseNs;
    }

    /** Returns the time of the first step since {@link #watch}. */
    synchronized long firstStepSinceNs() {
        return firstStepSinceNs;
    }

    synchronized String address() {
        return address;
    }

    /** Returns the process ids of this process and of those that it has launched. */
    synchronized List<Long> pids() {
        return List.copyOf(pids);
    }

    /** Returns when this member opened a coordinator in place of a lost one; -1 if it did not. */
    synchronized long takeoverNs() {
        return takeoverNs;
    }

    /** Returns the step that was taken although the same or a later one was finished, or an empty text. */
    synchronized String repeated() {
        return repeated;
    }

    /** Returns the time from the start of this process to its first step. */
    synchronized long toFirstStepNs() {
        return firstStepNs - startedNs;
    }

    synchronized int world() {
        return world;
    }

    /** Returns the first step that this process took. */
    synchronized long firstStep() {
        return firstStep;
    }

    synchronized long lastStep() {
        return lastStep;
    }

    /** Returns the step of the last checkpoint, -1 if there is none. */
    synchronized long saved() {
        return saved;
    }

    synchronized Failure failure() {
        return failure;
    }

    boolean isAlive() {
        return process.isAlive();
    }

    /** Returns whether the process has ended and its output is complete. */
    boolean hasEnded() {
        return !process.isAlive() && !reader.isAlive();
    }

    /** Sends a signal, {@code KILL}, {@code STOP} or {@code CONT}; returns the time just before. */
    long signal(String signal) {
        long now = System.nanoTime();
        if (signal.equals("KILL")) {
            process.destroyForcibly();
            return now;
        }
        try {
            new ProcessBuilder("kill", "-s", signal, Long.toString(process.pid())).start().waitFor();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return now;
    }

    /** Returns whether a process runs; one that has ended and that its parent has not noticed does not. */
    static boolean isRunning(long pid) {
        try {
            String status = Files.readString(Path.of("/proc", Long.toString(pid), "stat"));
            return status.charAt(status.lastIndexOf(')') + 2) != 'Z';
        } catch (IOException gone) {
            return false;
        }
    }

    /** Kills the process if it runs, and waits for its end. */
    void end() {
        process.destroyForcibly();
        try {
            if (!process.waitFor(END_S, TimeUnit.SECONDS)) {
                throw new AssertionError(name + " survives SIGKILL");
            }
            reader.join(TimeUnit.SECONDS.toMillis(END_S));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** Returns the last lines of the output, without most steps. */
    synchronized String report() {
        return "---- " + name + (isAlive() ? " (runs)" : " (ended)") + ", step " + lastStep + " of " + world + "\n"
                + String.join("\n", last.stream().filter(line -> !line.startsWith("step ")).toList());
    }
}
