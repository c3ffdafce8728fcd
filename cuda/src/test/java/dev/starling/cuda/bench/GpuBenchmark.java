package dev.starling.cuda.bench;

import dev.starling.cuda.dnn.PlanningTime;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Measures operations and training steps on a GPU, alternately with PyTorch on the same card, and prints a line for
 * each. Its exit code is 1 if a measurement fails or misses its goal.
 *
 * <pre>
 * --device cuda       the device to measure
 * --python python3    an interpreter with PyTorch; "none" measures without PyTorch
 * --only REGEX        only the cases whose order matches
 * --json FILE         file for the results, one object a line
 * --tiny              sizes for an emulator
 * --rounds 5          results are medians of this many rounds
 * --millis 150        minimal length of a round
 * --tf32              both multiply f32 as TF32; Starling needs -Dstarling.cuda.tf32=true too
 * --no-goals          ignores goals; only what cannot be measured fails
 * </pre>
 */
public final class GpuBenchmark {
    /** Compiling a network takes PyTorch a minute or two. */
    private static final Duration ANSWER_TIMEOUT = Duration.ofMinutes(4);

    /** Warm-up time in rounds. */
    private static final int WARM_ROUNDS = 3;

    /** A step's Java code is interpreted, then compiled twice, which takes seconds. */
    private static final int WARM_TRAINING_ROUNDS = 17;

    private static final int WARM_HOST_ROUNDS = 20;

    private final Options options;
    private final PrintStream out;
    private PyTorch peer;
    /** The higher copy rate of the two, from the last copy case. */
    private double copyRate = Double.NaN;

    private static final class Options {
        private String device = "cuda";
        private String python = "python3";
        private Pattern only = Pattern.compile("");
        private Path json;
        private boolean tiny;
        private boolean tf32;
        private boolean goals = true;
        private int rounds = 5;
        private double seconds = 0.15;

        Options(String[] arguments) {
            for (int i = 0; i < arguments.length; i++) {
                switch (arguments[i]) {
                    case "--device" -> device = arguments[++i];
                    case "--python" -> python = arguments[++i];
                    case "--only" -> only = Pattern.compile(arguments[++i]);
                    case "--json" -> json = Path.of(arguments[++i]);
                    case "--tiny" -> tiny = true;
                    case "--tf32" -> tf32 = true;
                    case "--no-goals" -> goals = false;
                    case "--rounds" -> rounds = Integer.parseInt(arguments[++i]);
                    case "--millis" -> seconds = Double.parseDouble(arguments[++i]) / 1e3;
                    default -> throw new IllegalArgumentException("unknown option " + arguments[i]);
                }
            }
        }
    }

    private GpuBenchmark(Options options, PrintStream out) {
        this.options = options;
        this.out = out;
    }

    /** Runs the command; see the class for the arguments. */
    public static void main(String[] arguments) {
        System.exit(run(System.out, arguments) ? 0 : 1);
    }

    /** Runs the benchmark, and returns whether all cases were measured and reach their goals. */
    static boolean run(PrintStream out, String... arguments) {
        Options options = new Options(arguments);
        return Device.with(Device.of(options.device, 0), () -> new GpuBenchmark(options, out).run());
    }

    private boolean run() {
        List<Finding> findings = new ArrayList<>();
        try {
            startPeer();
            out.println(Finding.heading());
            for (Workload workload : Workload.all(options.tiny)) {
                if (options.only.matcher(workload.order()).find()) {
                    findings.add(compare(options.goals ? workload : workload.withoutGoal()));
                    out.println(findings.getLast());
                    write(findings.getLast());
                }
            }
        } finally {
            if (peer != null) {
                peer.close();
            }
        }
        if (PlanningTime.graphs() > 0) {
            out.printf("cuDNN planned %d graphs in %.1f s%n", PlanningTime.graphs(), PlanningTime.seconds());
        }
        long held = findings.stream().filter(f -> f.verdict() == Finding.Verdict.HELD).count();
        long alone = findings.stream().filter(f -> f.verdict() == Finding.Verdict.ALONE).count();
        long below = findings.size() - held - alone;
        out.println(held + " passed, " + below + " failed of " + findings.size()
                + (alone > 0 ? ", " + alone + " with nothing to compare them with" : ""));
        return below == 0 && !findings.isEmpty();
    }

    private void startPeer() {
        if (options.python.equals("none")) {
            return;
        }
        try {
            Path errors = options.json == null ? Files.createTempFile("starling-peer", ".err")
                    : Path.of(options.json + ".err");
            peer = new PyTorch(options.python, options.device.equals("cuda") ? "cuda" : "cpu", options.tf32, errors,
                    ANSWER_TIMEOUT);
            out.println("compared with " + peer.describe());
        } catch (PyTorch.Failure | UncheckedIOException e) {
            out.println("PyTorch is not available: " + e.getMessage());
            peer = null;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Measures alternately; if one of the two fails, the other is still measured. */
    private Finding compare(Workload workload) {
        String note = "";
        boolean theirs = false;
        try {
            if (peer != null && !workload.isHostTime()) {
                peer.prepare(workload);
                theirs = true;
            }
        } catch (PyTorch.Failure e) {
            note = "PyTorch: " + e.getMessage();
        }
        double[] times = {Double.NaN, Double.NaN};
        try (Case ours = Cases.of(workload)) {
            int warm = workload.isTraining() ? WARM_TRAINING_ROUNDS : WARM_ROUNDS;
            note += workload.isHostTime() ? hostTime(ours, times) : rounds(ours, theirs, warm, times);
        } catch (RuntimeException | LinkageError e) {
            note += String.valueOf(e.getMessage()).lines().findFirst().orElse(e.toString());
            e.printStackTrace();
        }
        if (theirs) {
            peer.release();
        }
        Device.current().backend().memory().trim();
        if (workload.order().startsWith("copy")) {
            copyRate = Math.max(workload.rate(times[0]), Double.isNaN(times[1]) ? 0 : workload.rate(times[1]));
        }
        double ofCopy = workload.isElementwise() ? workload.rate(times[0]) / copyRate : Double.NaN;
        return new Finding(workload, times[0], times[1], ofCopy, note);
    }

    /** Stores how long a run keeps the host busy, and returns an empty note. */
    private String hostTime(Case ours, double[] times) {
        int runs = repeats(n -> time(ours, n), WARM_ROUNDS);
        // Warms up until the JIT compiler is done, which takes some ten thousand runs.
        for (double seconds = 0; seconds < WARM_HOST_ROUNDS * options.seconds;) {
            seconds += runs * HostTime.of(ours, runs);
        }
        double[] busy = new double[options.rounds];
        Arrays.setAll(busy, round -> HostTime.of(ours, runs));
        Arrays.sort(busy);
        times[0] = busy[options.rounds / 2];
        return "";
    }

    /** Stores the median times, and returns the error of PyTorch, if any. */
    private String rounds(Case ours, boolean theirs, int warm, double[] times) {
        int ourRepeats = repeats(n -> time(ours, n), warm);
        String note = "";
        int theirRepeats = 0;
        try {
            theirRepeats = theirs ? repeats(peer::time, warm) : 0;
        } catch (PyTorch.Failure e) {
            note = "PyTorch: " + e.getMessage();
        }
        double[] mine = new double[options.rounds];
        double[] other = new double[options.rounds];
        for (int round = 0; round < options.rounds; round++) {
            mine[round] = time(ours, ourRepeats) / ourRepeats;
            other[round] = theirRepeats == 0 ? Double.NaN : peer.time(theirRepeats) / theirRepeats;
        }
        Arrays.sort(mine);
        Arrays.sort(other);
        times[0] = mine[options.rounds / 2];
        times[1] = other[options.rounds / 2];
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
        while (seconds < warm * options.seconds && seconds + last < 40 * options.seconds) {
            last = work.time(runs);
            seconds += last;
            if (last < options.seconds / 2) {
                runs *= 2;
            }
        }
        return Math.max(1, (int) Math.round(runs * options.seconds / Math.max(last, 1e-9)));
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

    private void write(Finding finding) {
        if (options.json == null) {
            return;
        }
        try {
            Files.writeString(options.json, finding.json() + "\n", StandardOpenOption.CREATE,
                    StandardOpenOption.APPEND);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
