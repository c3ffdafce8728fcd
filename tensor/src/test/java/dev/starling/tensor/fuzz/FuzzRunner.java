package dev.starling.tensor.fuzz;

import java.io.BufferedReader;
import java.io.IOException;
import java.nio.MappedByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalTime;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Runs a range of seeds in a child process. If a child crashes or hangs, the current seed is a finding, and another
 * child continues after it.
 */
public final class FuzzRunner {
    /** Begins a line of a child that reports a finding, and stands for line breaks in it. */
    static final String MARK = "\u001e";
    private static final int KEPT_LINES = 60;
    private static final long PROGRESS_NS = 60_000_000_000L;

    /**
     * The outcome of a run.
     *
     * @param cases number of seeds that were run
     * @param findings descriptions by seed
     * @param time duration of the run
     */
    public record Outcome(long cases, Map<Long, String> findings, Duration time) { }

    private final Class<? extends Fuzz> fuzz;
    private final Duration deadline;
    private final List<String> flags;
    private final Map<Long, String> findings = Collections.synchronizedMap(new TreeMap<>());

    /**
     * Makes a runner.
     *
     * @param deadline for one case
     * @param flags of the child's JVM, in addition to those that Starling needs
     */
    public FuzzRunner(Class<? extends Fuzz> fuzz, Duration deadline, String... flags) {
        this.fuzz = fuzz;
        this.deadline = deadline;
        this.flags = List.of(flags);
    }

    /** Reads {@code first=N count=N deadline=SECONDS} and flags of the child's JVM, runs, and prints the findings. */
    public static void main(Class<? extends Fuzz> fuzz, String... args) throws Exception {
        long first = 0;
        long count = 100_000;
        long seconds = 60;
        List<String> flags = new ArrayList<>(List.of("-Xmx256m"));
        for (String arg : args) {
            String value = arg.substring(arg.indexOf('=') + 1);
            switch (arg.substring(0, Math.max(0, arg.indexOf('=')))) {
                case "first" -> first = Long.parseLong(value);
                case "count" -> count = Long.parseLong(value);
                case "deadline" -> seconds = Long.parseLong(value);
                default -> flags.add(arg);
            }
        }
        Outcome outcome = new FuzzRunner(fuzz, Duration.ofSeconds(seconds), flags.toArray(String[]::new))
                .run(first, count, true);
        System.out.println(outcome.cases + " cases from seed " + first + " in " + outcome.time.toSeconds() + " s, "
                + outcome.findings.size() + " findings");
        System.exit(outcome.findings.isEmpty() ? 0 : 1);
    }

    /** Runs seeds {@code first} to {@code first + count - 1}; if {@code verbose}, prints findings immediately. */
    public Outcome run(long first, long count, boolean verbose) throws IOException, InterruptedException {
        long began = System.nanoTime();
        Path file = Files.createTempFile("fuzz", ".seed");
        try {
            MappedByteBuffer notes = FuzzWorker.notes(file);
            long next = first;
            while (next < first + count) {
                next = child(next, first + count, file, notes, verbose);
            }
        } finally {
            Files.deleteIfExists(file);
        }
        return new Outcome(count, new TreeMap<>(findings), Duration.ofNanos(System.nanoTime() - began));
    }

    /** Runs seeds until all are done or the child ends; returns the seed after the last one that was run. */
    private long child(long from, long to, Path file, MappedByteBuffer notes, boolean verbose)
            throws IOException, InterruptedException {
        notes.putLong(FuzzWorker.SEED, from);
        notes.putLong(FuzzWorker.SINCE, System.currentTimeMillis() + 30_000);
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules=jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED",
                "-XX:+UseSerialGC", "-XX:-CreateCoredumpOnCrash", "-XX:ErrorFile=" + file + ".hs_err"));
        command.addAll(flags);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), FuzzWorker.class.getName(),
                fuzz.getName(), from + "", to + "", file.toString()));
        Process child = new ProcessBuilder(command).redirectErrorStream(true).start();
        Deque<String> last = new ArrayDeque<>();
        Thread reader = Thread.ofPlatform().daemon().start(() -> read(child, last, verbose));
        AtomicBoolean hung = new AtomicBoolean();
        long reported = System.nanoTime();
        while (!child.waitFor(200, TimeUnit.MILLISECONDS)) {
            if (verbose && System.nanoTime() - reported > PROGRESS_NS) {
                reported = System.nanoTime();
                System.out.println("---- at seed " + notes.getLong(FuzzWorker.SEED) + ", " + LocalTime.now());
            }
            if (System.currentTimeMillis() - notes.getLong(FuzzWorker.SINCE) > deadline.toMillis()) {
                hung.set(true);
                last.addLast(stack(child));
                child.destroyForcibly();
            }
        }
        reader.join();
        long seed = notes.getLong(FuzzWorker.SEED);
        if (seed == to) {
            return to;
        }
        String crash = Path.of(file + ".hs_err").toFile().exists() ? Files.readString(Path.of(file + ".hs_err"))
                .lines().limit(60).reduce("", (a, b) -> a + "\n" + b) : "";
        Files.deleteIfExists(Path.of(file + ".hs_err"));
        found(seed, (hung.get() ? "the case took more than " + deadline.toSeconds() + " s"
                : "the JVM ended with " + child.exitValue()) + "\n" + String.join("\n", last) + crash, verbose);
        return seed + 1;
    }

    private static String stack(Process child) throws IOException, InterruptedException {
        Process jstack = new ProcessBuilder(Path.of(System.getProperty("java.home"), "bin", "jstack").toString(),
                child.pid() + "").redirectErrorStream(true).start();
        String text = new String(jstack.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        jstack.waitFor();
        int at = text.indexOf("\"main\"");
        return at < 0 ? "" : text.substring(at, Math.min(text.length(), at + 2000));
    }

    private void read(Process child, Deque<String> last, boolean verbose) {
        try (BufferedReader in = child.inputReader(StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                if (line.startsWith(MARK)) {
                    int space = line.indexOf(' ');
                    found(Long.parseLong(line.substring(1, space)), line.substring(space + 1).replace(MARK, "\n"),
                            verbose);
                } else {
                    last.addLast(line);
                    if (last.size() > KEPT_LINES) {
                        last.removeFirst();
                    }
                }
            }
        } catch (IOException e) {
            last.addLast(e.toString());
        }
    }

    private void found(long seed, String text, boolean verbose) {
        findings.put(seed, text);
        if (verbose) {
            System.out.println("---- seed " + seed + " at " + LocalTime.now().withNano(0) + ": " + text);
        }
    }
}
