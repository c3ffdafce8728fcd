package dev.starling.jmh;

import dev.starling.jmh.cluster.ClusterBench;
import dev.starling.jmh.gpu.GpuBench;
import dev.starling.jmh.serving.ServingBench;
import dev.starling.jmh.startup.StartupBench;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Compares Starling's speed with PyTorch's best on this machine, and with raw oneDNN's. */
@Command(
        name = "bench",
        description = "Compares Starling's speed with PyTorch's in alternating runs, and prints the ratios.",
        mixinStandardHelpOptions = true,
        subcommands = {ClusterBench.class, GpuBench.class, ServingBench.class, StartupBench.class, Jmh.class})
public final class Bench implements Callable<Integer> {
    private static final String ROW = "%-20s %12s %12s  %-10s %6s  %-8s %s";

    @Option(names = "--threads", description = "Threads of each engine (default: 1).", defaultValue = "1")
    private int threads;

    @Option(names = "--only", split = ",",
            description = "Only benchmarks of these names, or whose names start with one of these:"
                + " ${COMPLETION-CANDIDATES}.",
            completionCandidates = Names.class)
    private List<String> only = List.of();

    @Option(names = "--pairs", description = "Pairs of runs; the result is the median of their ratios (default: 11).",
            defaultValue = "11")
    private int pairs;

    @Option(names = "--warmup", description = "Milliseconds of warm-up before each comparison (default: 5000).",
            defaultValue = "5000")
    private long warmupMillis;

    @Option(names = "--clock", defaultValue = "WALL",
            description = "WALL, or PROCESSOR: the calling thread's processor time, for one thread on a busy"
                    + " machine (default: WALL).")
    private Clock clock;

    @Option(names = "--json",
            description = "Print one JSON object on standard output at the end, and the table on standard error.")
    private boolean json;

    @Spec
    private CommandSpec spec;

    private Bench() {
    }

    /** Runs the command and ends the process with its exit code. */
    public static void main(String[] arguments) {
        Locale.setDefault(Locale.ROOT);
        System.exit(commandLine().execute(arguments));
    }

    static CommandLine commandLine() {
        return new CommandLine(new Bench()).setCaseInsensitiveEnumValuesAllowed(true);
    }

    @Override
    public Integer call() {
        if (threads < 1 || pairs < 1 || warmupMillis < 0) {
            throw new ParameterException(spec.commandLine(), "--threads and --pairs must be 1 or more and --warmup 0 "
                + "or more, got " + threads + ", " + pairs + " and " + warmupMillis);
        }
        if (clock == Clock.PROCESSOR && threads > 1) {
            System.err.println("--clock PROCESSOR measures one thread only; use --clock WALL with --threads "
                + threads);
            return CommandLine.ExitCode.USAGE;
        }
        List<String> unknown = only.stream()
            .filter(name -> Workload.ALL.stream().noneMatch(workload -> matches(name, workload))).toList();
        if (!unknown.isEmpty()) {
            System.err.println("No benchmark name starts with " + String.join(" or ", unknown) + "; the names are "
                + String.join(", ", new Names()));
            return CommandLine.ExitCode.USAGE;
        }
        List<Workload> chosen = Workload.ALL.stream()
            .filter(workload -> only.isEmpty() || only.stream().anyMatch(name -> matches(name, workload))).toList();
        List<Comparison> comparisons = new ArrayList<>();
        var table = json ? System.err : System.out;
        table.printf(ROW + "%n", "case", "Starling", "the peer", "unit", "ratio", "peer", "fastest variant");
        Progress progress = new Progress();
        try (PairedComparison paired = new PairedComparison(threads, clock, pairs, warmupMillis, progress)) {
            for (Workload workload : chosen) {
                for (Comparison comparison : paired.compare(workload)) {
                    progress.clear();
                    table.println(row(comparison));
                    comparisons.add(comparison);
                }
            }
        }
        double[] convolutions = comparisons.stream()
            .filter(c -> c.workload() instanceof Workload.Convolution convolution
                && convolution.format() == Workload.Format.BF16)
            .mapToDouble(Comparison::ratio).toArray();
        if (convolutions.length > 1) {
            table.printf("geometric mean of the ratios of %d convolutions in bf16: %.2f%n", convolutions.length,
                Statistics.geometricMean(convolutions));
        }
        if (json) {
            System.out.println(json(comparisons));
        }
        return CommandLine.ExitCode.OK;
    }

    private static boolean matches(String name, Workload workload) {
        boolean whole = Workload.ALL.stream().anyMatch(other -> other.name().equals(name));
        return whole ? workload.name().equals(name) : workload.name().startsWith(name);
    }

    static String row(Comparison c) {
        return ROW.formatted(c.workload().name(), number(c.ours()), number(c.theirs()), c.workload().unit().label(),
            Double.isFinite(c.ratio()) ? "%.2f".formatted(c.ratio()) : "-", name(c.peer()), c.peerVariant());
    }

    private String json(List<Comparison> comparisons) {
        return comparisons.stream().map(Bench::json).collect(Collectors.joining(",",
            "{\"threads\":" + threads + ",\"clock\":\"" + clock + "\",\"cases\":[", "]}"));
    }

    static String json(Comparison c) {
        return ("{\"case\":\"%s\",\"unit\":\"%s\",\"ours\":%s,\"peer\":\"%s\",\"theirs\":%s,\"ratio\":%s,"
            + "\"how\":\"%s\"}").formatted(c.workload().name(), c.workload().unit().label(), number(c.ours()),
                name(c.peer()), number(c.theirs()),
                Double.isFinite(c.ratio()) ? "%.3f".formatted(c.ratio()) : "null", c.peerVariant());
    }

    private static String number(double value) {
        return "%.1f".formatted(value);
    }

    private static String name(Contender contender) {
        return contender.name().toLowerCase(Locale.ROOT);
    }

    /** The values of {@code --only}. */
    private static final class Names extends ArrayList<String> {
        private static final long serialVersionUID = 1;

        Names() {
            super(Workload.ALL.stream().map(Workload::name).toList());
        }
    }

    /** A progress line at the bottom of a terminal; silent elsewhere. */
    private static final class Progress implements Consumer<String> {
        private final boolean shown = System.console() != null && System.console().isTerminal();

        @Override
        public void accept(String state) {
            if (shown) {
                System.err.print("\r\033[K" + state);
                System.err.flush();
            }
        }

        void clear() {
            accept("");
        }
    }
}
