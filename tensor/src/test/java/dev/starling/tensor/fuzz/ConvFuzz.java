package dev.starling.tensor.fuzz;

import java.io.BufferedReader;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.LongBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * Compares every geometry of {@link ConvEnumeration} with plain loops, in a child process: a crash or a hang is a
 * finding like a wrong value, and the search continues after it. Findings are shrunk and printed as Java.
 *
 * <p>{@code ConvFuzz FROM TO [SEED]} runs a range of numbers; without arguments it runs all of them.
 */
public final class ConvFuzz {
    private static final long HANG_SECONDS = 60;
    private static final int MAX_FINDINGS = 20;
    private static final int PASSES = 3;

    private final long seed;
    private final List<String> findings = new ArrayList<>();
    private long geometries;
    private long cases;

    private ConvFuzz(long seed) {
        this.seed = seed;
    }

    /**
     * The outcome of a run.
     *
     * @param geometries number of legal geometries
     * @param cases number of passes over them
     * @param findings descriptions and Java code
     */
    record Report(long geometries, long cases, List<String> findings) {
    }

    /** Runs a range of numbers and prints the findings; the exit status is 1 if there are any. */
    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("child")) {
            child(arguments);
            return;
        }
        long from = arguments.length > 0 ? Long.parseLong(arguments[0]) : 0;
        long to = arguments.length > 1 ? Long.parseLong(arguments[1]) : ConvEnumeration.size();
        long seed = arguments.length > 2 ? Long.parseLong(arguments[2]) : 1;
        long start = System.nanoTime();
        Report report = run(from, to, seed);
        System.out.printf("seed %d, numbers %d to %d: %d geometries, %d cases, %d findings, %d s%n", seed, from, to,
                report.geometries, report.cases, report.findings.size(), (System.nanoTime() - start) / 1_000_000_000);
        System.exit(report.findings.isEmpty() ? 0 : 1);
    }

    /** Runs numbers {@code from} (inclusive) to {@code to} (exclusive). */
    static Report run(long from, long to, long seed) throws IOException, InterruptedException {
        ConvFuzz fuzz = new ConvFuzz(seed);
        Path progress = Files.createTempFile("conv-fuzz", ".progress");
        try {
            long next = from * PASSES;
            while (next < to * PASSES && fuzz.findings.size() < MAX_FINDINGS) {
                next = fuzz.runChild(progress, next, to);
            }
        } finally {
            Files.delete(progress);
        }
        return new Report(fuzz.geometries, fuzz.cases, fuzz.findings);
    }

    /** Returns the number to continue from: the end, or the one after the case that ended the child. */
    private long runChild(Path progress, long next, long to) throws IOException, InterruptedException {
        Files.write(progress, new byte[4 * Long.BYTES]);
        Process process = start("child", progress.toString(), String.valueOf(next), String.valueOf(to),
                String.valueOf(seed));
        Thread reader = Thread.ofPlatform().daemon().start(() -> read(process));
        try (FileChannel channel = FileChannel.open(progress, StandardOpenOption.READ)) {
            LongBuffer state = channel.map(FileChannel.MapMode.READ_ONLY, 0, 4 * Long.BYTES).asLongBuffer();
            long seen = -1;
            long since = System.nanoTime();
            while (!process.waitFor(200, TimeUnit.MILLISECONDS)) {
                if (state.get(0) != seen) {
                    seen = state.get(0);
                    since = System.nanoTime();
                } else if (System.nanoTime() - since > HANG_SECONDS * 1_000_000_000) {
                    process.destroyForcibly().waitFor();
                }
            }
            reader.join();
            geometries += state.get(1);
            cases += state.get(2);
            if (process.exitValue() == 0) {
                return Long.MAX_VALUE;
            }
            long at = state.get(0);
            ConvCase failed = at == 0 ? null : caseOf(at - 1, seed);
            if (failed == null) {
                throw new IOException("the child ended with " + process.exitValue() + " before its first case");
            }
            ConvCase smallest = ConvShrinker.shrink(failed, ConvFuzz::crashes);
            note("number " + (at - 1) / PASSES + " seed " + seed + ": the process ended with " + process.exitValue()
                    + "\n    assertThat(" + smallest + ".failure()).isNull();");
            return at;
        }
    }

    private void read(Process process) {
        try (BufferedReader lines = process.inputReader()) {
            StringBuilder text = new StringBuilder();
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                if (line.startsWith("FINDING ")) {
                    text.append(line, 8, line.length()).append('\n').append(lines.readLine());
                    note(text.toString());
                    text.setLength(0);
                }
            }
        } catch (IOException e) {
            note("reading from the child: " + e);
        }
    }

    private synchronized void note(String finding) {
        findings.add(finding);
        System.out.println(finding);
    }

    /** Returns whether a case ends a process of its own. */
    private static boolean crashes(ConvCase one) {
        try {
            Process process = start("child", "case", ConvText.write(one));
            process.getInputStream().readAllBytes();
            return process.waitFor() != 0;
        } catch (IOException | InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Process start(String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        ManagementFactory.getRuntimeMXBean().getInputArguments().stream().filter(a -> a.startsWith("--add-modules")
                || a.startsWith("--enable-native-access")).forEach(command::add);
        command.addAll(List.of("-Xmx1g", "-XX:-CreateCoredumpOnCrash", "-XX:+SuppressFatalErrorMessage", "-cp",
                System.getProperty("java.class.path"), ConvFuzz.class.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.DISCARD).start();
    }

    private static ConvCase caseOf(long at, long seed) {
        List<ConvCase> cases = ConvEnumeration.cases(at / PASSES, seed);
        return cases.isEmpty() ? null : cases.get((int) (at % PASSES));
    }

    private static void child(String[] arguments) throws IOException {
        if (arguments[1].equals("case")) {
            ConvText.read(arguments[2]).failure();
            return;
        }
        long to = Long.parseLong(arguments[3]);
        long seed = Long.parseLong(arguments[4]);
        try (FileChannel channel = FileChannel.open(Path.of(arguments[1]), StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            LongBuffer state = channel.map(FileChannel.MapMode.READ_WRITE, 0, 4 * Long.BYTES).asLongBuffer();
            int found = 0;
            for (long at = Long.parseLong(arguments[2]); at < to * PASSES && found < MAX_FINDINGS; at++) {
                ConvCase next = caseOf(at, seed);
                if (next == null) {
                    continue;
                }
                state.put(0, at + 1);
                state.put(1, state.get(1) + (at % PASSES == 0 ? 1 : 0));
                state.put(2, state.get(2) + 1);
                String failure = next.failure();
                if (failure != null) {
                    found++;
                    ConvCase smallest = ConvShrinker.shrink(next, c -> c.failure() != null);
                    System.out.println("FINDING number " + at / PASSES + " seed " + seed + ": " + failure + "; least: "
                            + smallest.failure());
                    System.out.println("    assertThat(" + smallest + ".failure()).isNull();");
                }
            }
        }
    }
}
