package dev.starling.jmh.gpu;

import dev.starling.jmh.Case;
import dev.starling.jmh.Statistics;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.regex.Pattern;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/**
 * Measures operations and training steps on a GPU, alternately with PyTorch on the same card, and prints a line for
 * each. Its exit code is 1 if a measurement fails or misses its goal.
 */
@Command(name = "gpu", mixinStandardHelpOptions = true, description = "Compares the speed of operations and training "
        + "steps on a GPU with that of PyTorch for Python, in alternating runs. The exit code is 1 if one fails or "
        + "misses its goal.")
public final class GpuBench implements Callable<Integer> {
    /** Compiling a network takes PyTorch a minute or two. */
    private static final Duration ANSWER_TIMEOUT = Duration.ofMinutes(4);

    /** Warm-up time in rounds. */
    private static final int WARM_ROUNDS = 3;

    /** A step's Java code is interpreted, then compiled twice, which takes seconds. */
    private static final int WARM_TRAINING_ROUNDS = 17;

    private static final int WARM_HOST_ROUNDS = 20;

    /** Captured workloads run their first step eagerly; then the step is captured, planned, and made a graph. */
    private static final int STEPS = 4;

    private static final int REPORTED_LINES = 20;

    @Option(names = "--device", defaultValue = "cuda", description = "The device (default: cuda).")
    private String device;

    @Option(names = "--index", defaultValue = "0", description = "Its index (default: 0).")
    private int index;

    @Option(names = "--python", defaultValue = "python3",
            description = "A Python with PyTorch; none measures without PyTorch (default: python3).")
    private String python;

    @Option(names = "--only", defaultValue = "", description = "Regular expression: only the cases that match it.")
    private Pattern only;

    @Option(names = "--json", description = "A file for the results, one object a line.")
    private Path json;

    @Option(names = "--tiny", description = "Sizes for an emulator.")
    private boolean tiny;

    @Option(names = "--tf32",
            description = "Both multiply f32 as TF32; Starling needs -Dstarling.cuda.tf32=true, too.")
    private boolean tf32;

    @Option(names = "--no-goals", description = "Without goals: only what cannot be measured fails.")
    private boolean ignoresGoals;

    @Option(names = "--rounds", defaultValue = "5", description = "Rounds; results are medians (default: 5).")
    private int rounds;

    @Option(names = "--millis", defaultValue = "150", description = "Milliseconds of a round (default: 150).")
    private double millis;

    @Option(names = "--once", description = "Runs each case a few times and measures nothing, as to compile kernels.")
    private boolean once;

    @Spec
    private CommandSpec spec;

    private PrintStream out = System.out;
    private PyTorchProcess peer;
    private boolean peerFailed;
    /** PyTorch's standard error. */
    private Path errors;
    /** The higher copy rate of the two, from the last copy case. */
    private double copyRate = Double.NaN;
    /** The seconds of first runs, in which kernels are compiled and libraries plan. */
    private double firstRuns;

    /** Called by picocli. */
    public GpuBench() {
    }

    /** Runs the command and ends the process with its exit code. */
    public static void main(String[] arguments) {
        System.exit(run(System.out, arguments));
    }

    /** Runs the command and returns its exit code: 0 if all cases were measured and reach their goals. */
    public static int run(PrintStream out, String... arguments) {
        GpuBench bench = new GpuBench();
        bench.out = out;
        return new CommandLine(bench).execute(arguments);
    }

    @Override
    public Integer call() {
        if (rounds < 1 || !(millis > 0 && Double.isFinite(millis))) {
            throw new ParameterException(spec.commandLine(), "--rounds must be 1 or more and --millis above 0, got "
                    + rounds + " and " + millis);
        }
        if (device.equals("cuda") && !python.equals("none") && tf32 != Boolean.getBoolean("starling.cuda.tf32")) {
            throw new ParameterException(spec.commandLine(), "--tf32 and -Dstarling.cuda.tf32=true need each other:"
                    + " otherwise one side alone rounds to TF32");
        }
        Device chosen;
        try {
            chosen = Device.of(device, index);
            chosen.backend();
        } catch (TensorException e) {
            out.println(e.getMessage());
            return CommandLine.ExitCode.USAGE;
        }
        if (workloads().isEmpty()) {
            out.println("no case matches " + only);
            return CommandLine.ExitCode.USAGE;
        }
        if (json != null) {
            try {
                Files.newOutputStream(json, StandardOpenOption.CREATE, StandardOpenOption.APPEND).close();
            } catch (IOException e) {
                out.println("cannot write results to the file of --json: " + e);
                return CommandLine.ExitCode.USAGE;
            }
        }
        return Device.with(chosen, () -> once ? runOnce() : run()) ? 0 : 1;
    }

    /** Returns the workloads that {@code --only} selects. */
    private List<GpuWorkload> workloads() {
        return GpuWorkload.all(tiny).stream().filter(workload -> only.matcher(workload.order()).find()).toList();
    }

    /** Runs every case until it does nothing new, and returns whether none has failed. */
    private boolean runOnce() {
        boolean complete = true;
        for (GpuWorkload workload : workloads()) {
            try (Case work = GpuCases.of(workload)) {
                for (int i = 0; i < STEPS; i++) {
                    work.run();
                }
            } catch (RuntimeException e) {
                out.println(workload.order() + " did not run on " + device + ": " + e.getMessage());
                complete = false;
            }
        }
        return complete;
    }

    private boolean run() {
        List<GpuFinding> findings = new ArrayList<>();
        try {
            startPeer();
            out.println(GpuFinding.heading());
            for (GpuWorkload workload : workloads()) {
                findings.add(compare(ignoresGoals ? workload.withoutGoal() : workload));
                out.println(findings.getLast());
                write(findings.getLast());
            }
        } finally {
            if (peer != null) {
                peer.close();
            }
        }
        if (peerFailed && json == null) {
            printErrors();
        }
        out.printf(Locale.ROOT, "the first runs took %.1f s, in which kernels are compiled and libraries plan%n",
                firstRuns);
        long held = findings.stream().filter(f -> f.verdict() == GpuFinding.Verdict.HELD).count();
        long alone = findings.stream().filter(f -> f.verdict() == GpuFinding.Verdict.ALONE).count();
        long below = findings.size() - held - alone;
        out.println(held + " passed, " + below + " failed of " + findings.size()
                + (alone > 0 ? ", " + alone + " with nothing to compare them with" : ""));
        return below == 0;
    }

    private void startPeer() {
        if (python.equals("none")) {
            return;
        }
        try {
            if (json == null) {
                errors = Files.createTempFile("starling-peer", ".err");
                errors.toFile().deleteOnExit();
            } else {
                errors = Path.of(json + ".err");
            }
            peer = new PyTorchProcess(python, device.equals("cuda") ? "cuda:" + index : "cpu", tf32, errors,
                    ANSWER_TIMEOUT);
            out.println("compared with " + peer.describe());
        } catch (PyTorchProcess.Failure | UncheckedIOException e) {
            out.println("PyTorch is not available: " + e.getMessage());
            peerFailed = true;
            if (peer != null) {
                peer.close();
                peer = null;
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Prints the end of PyTorch's standard error, whose file is deleted when this process ends. */
    private void printErrors() {
        try {
            List<String> lines = new String(Files.readAllBytes(errors), StandardCharsets.UTF_8).lines().toList();
            lines.subList(Math.max(0, lines.size() - REPORTED_LINES), lines.size()).forEach(out::println);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the note about a failure of PyTorch. */
    private String failed(PyTorchProcess.Failure e) {
        peerFailed = true;
        return "PyTorch: " + e.getMessage();
    }

    /** Measures alternately; if PyTorch fails, Starling is still measured. */
    private GpuFinding compare(GpuWorkload workload) {
        String note = "";
        boolean theirs = false;
        try {
            if (peer != null && !workload.isHostTime()) {
                peer.prepare(workload);
                theirs = true;
            }
        } catch (PyTorchProcess.Failure e) {
            note = failed(e);
        }
        double[] times = {Double.NaN, Double.NaN};
        try (Case ours = GpuCases.of(workload)) {
            firstRuns += time(ours, 1);
            int warm = workload.isTraining() ? WARM_TRAINING_ROUNDS : WARM_ROUNDS;
            note += workload.isHostTime() ? hostTime(ours, times) : rounds(ours, theirs, warm, times);
        } catch (RuntimeException | LinkageError e) {
            note += String.valueOf(e.getMessage()).lines().findFirst().orElse(e.toString());
            e.printStackTrace();
        }
        if (theirs) {
            try {
                peer.release();
            } catch (PyTorchProcess.Failure e) {
                note += note.isEmpty() ? failed(e) : "";
            }
        }
        Device.current().backend().memory().trim();
        if (workload.order().startsWith("copy")) {
            copyRate = Math.max(workload.rate(times[0]), Double.isNaN(times[1]) ? 0 : workload.rate(times[1]));
        }
        double ofCopy = workload.isElementwise() ? workload.rate(times[0]) / copyRate : Double.NaN;
        return new GpuFinding(workload, times[0], times[1], ofCopy, note);
    }

    /** Stores how long a run keeps the host busy, and returns an empty note. */
    private String hostTime(Case ours, double[] times) {
        int runs = repeats(n -> time(ours, n), WARM_ROUNDS);
        // Warms up until the JIT compiler is done, which takes some ten thousand runs.
        for (double seconds = 0; seconds < WARM_HOST_ROUNDS * millis / 1e3;) {
            seconds += runs * HostTime.of(ours, runs);
        }
        double[] busy = new double[rounds];
        Arrays.setAll(busy, round -> HostTime.of(ours, runs));
        times[0] = Statistics.median(busy);
        return "";
    }

    /** Stores the median times, and returns the error of PyTorch, if any. */
    private String rounds(Case ours, boolean theirs, int warm, double[] times) {
        int ourRepeats = repeats(n -> time(ours, n), warm);
        String note = "";
        int theirRepeats = 0;
        try {
            if (theirs) {
                // PyTorch compiles in the first run.
                peer.time(1);
                theirRepeats = repeats(peer::time, warm);
            }
        } catch (PyTorchProcess.Failure e) {
            note = failed(e);
        }
        double[] mine = new double[rounds];
        double[] other = new double[rounds];
        for (int round = 0; round < rounds; round++) {
            mine[round] = time(ours, ourRepeats) / ourRepeats;
            try {
                if (theirRepeats > 0) {
                    other[round] = peer.time(theirRepeats) / theirRepeats;
                }
            } catch (PyTorchProcess.Failure e) {
                note = failed(e);
                theirRepeats = 0;
            }
        }
        times[0] = Statistics.median(mine);
        times[1] = theirRepeats == 0 ? Double.NaN : Statistics.median(other);
        return note;
    }

    private interface Timed {
        /** Returns the seconds of a number of runs. */
        double time(int runs);
    }

    /** Warms up for the time of {@code warm} rounds, and returns the number of runs in a round. */
    private int repeats(Timed work, int warm) {
        int runs = 1;
        double seconds = 0;
        double last = work.time(1);
        double round = millis / 1e3;
        while (seconds < warm * round && seconds + last < 40 * round) {
            last = work.time(runs);
            seconds += last;
            if (last < round / 2) {
                runs *= 2;
            }
        }
        return Math.max(1, (int) Math.round(runs * round / Math.max(last, 1e-9)));
    }

    private static double time(Case work, int runs) {
        synchronize();
        long start = System.nanoTime();
        for (int i = 0; i < runs; i++) {
            work.run();
        }
        synchronize();
        return (System.nanoTime() - start) / 1e9;
    }

    /** Waits for all work queued on the device. */
    private static void synchronize() {
        try (Scope scope = Scope.open("synchronize")) {
            Tensor.zeros(1).item();
        }
    }

    private void write(GpuFinding finding) {
        if (json == null) {
            return;
        }
        try {
            Files.writeString(json, finding.json() + "\n", StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
