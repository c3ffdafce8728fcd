package dev.starling.jmh.cluster;

import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.stream.Stream;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Compares communication between processes of this machine with Open MPI, Gloo and grpc-java. */
@Command(
        name = "cluster",
        description = "Compares the speed of messages and all-reduce between processes with Open MPI, Gloo and gRPC,"
            + " in alternating runs. A ratio above 1 means that Starling is faster. An implementation that fails is"
            + " left out of the rest of its comparison, with its reason, and the exit code is 1.",
        mixinStandardHelpOptions = true)
public final class ClusterBench implements Callable<Integer> {
    private static final int MAX_MESSAGE = 64 << 10;
    private static final int ROUNDS = 9;
    /** The number of processes that train. */
    private static final int TRAINED = 2;
    /** What is compared with peers. */
    private static final List<Measure> COMPARED = List.of(Measure.ALL_REDUCE, Measure.ROUND_TRIP, Measure.PUT);
    private static final String LOOPBACK = "loopback";
    private static final String UNLIMITED = "veth";
    private static final String ROW = "%-18s %5s  %-22s %9s  %-13s %9s %-5s %6s  %s";

    @Option(names = "--processes", split = ",", description = "Numbers of processes (default: 2,4).",
            defaultValue = "2,4")
    private List<Integer> worlds;

    @Option(names = "--sizes", split = ",", defaultValue = "1024,65536,1048576,16777216,67108864",
            description = "Bytes to all-reduce, multiples of 4 up to 67108864 (default: ${DEFAULT-VALUE}).")
    private List<Integer> sizes;

    @Option(names = "--message", paramLabel = "BYTES", defaultValue = "32",
            description = "Bytes of a message of a round trip, up to 65536 (default: ${DEFAULT-VALUE}).")
    private int message;

    @Option(names = "--only", split = ",", description = "Only these of ${COMPLETION-CANDIDATES}.")
    private List<Measure> only = List.of();

    @Option(names = "--parties", split = ",", description = "Only these of ${COMPLETION-CANDIDATES}.")
    private List<Implementation> chosen = List.of();

    @Option(names = "--link", paramLabel = "LINK", defaultValue = LOOPBACK,
            description = "Where network traffic passes: loopback, or between network namespaces, one for each process,"
                + " joined by virtual Ethernet of MTU 1500, without a limit (veth) or at a rate such as 1gbit."
                + " Namespaces need root, and the commands ip and tc (default: ${DEFAULT-VALUE}).")
    private String link;

    @Option(names = "--rounds", paramLabel = "<rounds>",
            description = "Rounds; the result is their median (default: " + ROUNDS + ", with --model "
                + Prediction.ROUNDS + ").")
    private Optional<Integer> chosenRounds = Optional.empty();

    @Option(names = "--sample", description = "Milliseconds of one sample; of training, ten times "
        + "as long (default: 200).", defaultValue = "200")
    private long sampleMillis;

    @Option(names = "--warmup", description = "Milliseconds of warm-up before each case (default: 1500).",
            defaultValue = "1500")
    private long warmupMillis;

    @Option(names = "--model",
            description = "Instead of a comparison, calibrate a model of the all-reduce over TCP, compare its"
                + " predictions with measurements, and print what it predicts for large clusters.")
    private boolean model;

    @Option(names = "--json",
            description = "Print one JSON object on standard output at the end, and the table on standard error.")
    private boolean json;

    @Spec
    private CommandSpec spec;

    private boolean failed;

    /** Called by picocli. */
    public ClusterBench() {
    }

    /** Runs the command and ends the process with its exit code. */
    public static void main(String[] arguments) {
        Locale.setDefault(Locale.ROOT);
        System.exit(new CommandLine(new ClusterBench()).setCaseInsensitiveEnumValuesAllowed(true).execute(arguments));
    }

    @Override
    public Integer call() throws IOException, InterruptedException {
        String misuse = misuse();
        if (misuse != null) {
            System.err.println(misuse);
            return CommandLine.ExitCode.USAGE;
        }
        PrintStream table = json ? System.err : System.out;
        Path directory = Files.createTempDirectory("starling-cluster");
        List<String> cases = new ArrayList<>();
        try {
            if (model) {
                Prediction prediction = new Prediction(directory, table, rounds(), sampleMillis, warmupMillis);
                prediction.run(worlds);
                cases.addAll(prediction.json());
            } else {
                compare(directory, table, cases);
                if (worlds.contains(TRAINED)) {
                    train(directory, table, cases);
                }
            }
        } finally {
            delete(directory);
        }
        if (json) {
            System.out.println("{\"link\":\"" + link + "\",\"cases\":[" + String.join(",", cases) + "]}");
        }
        return failed ? CommandLine.ExitCode.SOFTWARE : CommandLine.ExitCode.OK;
    }

    /** Returns what is wrong with the options, or {@code null}. */
    private String misuse() {
        if (message < 1 || message > MAX_MESSAGE) {
            return "--message must be 1 to " + MAX_MESSAGE + " bytes, got " + message;
        }
        if (sizes.stream().anyMatch(size -> size < Float.BYTES || size > Member.MAX_BYTES || size % Float.BYTES > 0)) {
            return "--sizes must be multiples of " + Float.BYTES + " bytes from " + Float.BYTES + " to "
                + Member.MAX_BYTES + ", got " + sizes;
        }
        if (rounds() < 1 || sampleMillis < 1 || warmupMillis < 0 || worlds.stream().anyMatch(world -> world < 2)) {
            return "--processes must be 2 or more, --rounds and --sample 1 or more, and --warmup 0 or more, got "
                + worlds + ", " + rounds() + ", " + sampleMillis + " and " + warmupMillis;
        }
        if (model && !(only.isEmpty() && chosen.isEmpty())) {
            return "--model measures all-reduces over TCP: omit --only and --parties";
        }
        if (model) {
            return isApart() ? "--model measures over the link " + LOOPBACK + " only, got " + link : null;
        }
        List<Measure> idle = only.stream().filter(measure -> !isMeasurable(measure)).toList();
        if (!idle.isEmpty() || Stream.of(Measure.values()).noneMatch(this::isMeasurable)) {
            return "nothing to measure" + (idle.isEmpty() ? "" : " for --only " + idle) + " with --processes " + worlds
                + ", --link " + link + " and --parties " + chosen + ": ROUND_TRIP, PUT, TRAIN and STEP_OVERLAPPED need"
                + " 2 processes, PUT, TRAIN and STEP_OVERLAPPED the link " + LOOPBACK + ", comparisons with peers two"
                + " parties, and STEP_ALONE and STEP_LATE are parts of STEP_OVERLAPPED";
        }
        return null;
    }

    /** Returns whether there are implementations to measure and, for a comparison, their peers. */
    private boolean isMeasurable(Measure measure) {
        List<Implementation> able = implementations().filter(implementation -> implementation.supports(measure))
            .toList();
        return worlds.stream().anyMatch(world -> isBetween(world, measure))
            && able.stream().anyMatch(ours -> !COMPARED.contains(measure)
                || able.stream().anyMatch(peer -> peer.isPeerOf(ours)));
    }

    private static boolean isBetween(int world, Measure measure) {
        return world == 2 || measure == Measure.ALL_REDUCE;
    }

    /** Returns the implementations that the options select. */
    private Stream<Implementation> implementations() {
        return Stream.of(Implementation.values())
            .filter(implementation -> !isApart() || implementation.runsBetweenHosts())
            .filter(implementation -> chosen.isEmpty() || chosen.contains(implementation));
    }

    private void compare(Path directory, PrintStream table, List<String> cases)
            throws IOException, InterruptedException {
        String missing = OpenMpi.missing(directory.resolve("openmpi"));
        if (missing != null) {
            table.println("Without Open MPI: " + missing);
        }
        table.println("Network: " + describeLink());
        table.printf(ROW + "%n", "case", "procs", "Starling", "", "peer", "", "unit", "ratio", "fastest variant");
        List<Implementation> implementations = implementations()
            .filter(implementation -> missing == null || !implementation.isOpenMpi()).toList();
        for (int world : worlds) {
            try (Hosts hosts = hosts(world, directory)) {
                for (Measure measure : COMPARED) {
                    if (isSelected(measure) && isBetween(world, measure)) {
                        measure(measure, world, implementations, directory, hosts, table, cases);
                    }
                }
            }
        }
    }

    private void train(Path directory, PrintStream table, List<String> cases) {
        Training training = new Training(directory, rounds(), sampleMillis, warmupMillis, table);
        for (Implementation implementation : implementations().toList()) {
            if (implementation.supports(Measure.STEP_OVERLAPPED) && isSelected(Measure.STEP_OVERLAPPED)) {
                attempt(() -> training.overlap(implementation, TRAINED), table);
            }
            if (implementation.supports(Measure.TRAIN) && isSelected(Measure.TRAIN)) {
                attempt(() -> training.throughput(implementation, TRAINED), table);
            }
        }
        cases.addAll(training.json());
    }

    /** Runs a measurement; if it fails, reports why, and leaves it out. */
    private void attempt(Runnable measurement, PrintStream table) {
        try {
            measurement.run();
        } catch (IllegalStateException | UncheckedIOException e) {
            if (Thread.currentThread().isInterrupted()) {
                throw e;
            }
            failed = true;
            table.println("FAILED, and left out: " + e.getMessage());
        }
    }

    private boolean isApart() {
        return !link.equals(LOOPBACK);
    }

    private Hosts hosts(int world, Path directory) {
        try {
            return isApart() ? Hosts.apart(world, link.equals(UNLIMITED) ? "" : link, directory) : Hosts.loopback();
        } catch (IllegalStateException e) {
            throw new ParameterException(spec.commandLine(), "--link " + link + " is not possible here; it needs root,"
                + " and the commands ip and tc: " + e.getMessage(), e);
        }
    }

    private String describeLink() {
        return !isApart() ? "loopback, whose packets are of up to 65,536 bytes" : "virtual Ethernet between network "
            + "namespaces, MTU " + Hosts.MTU + (link.equals(UNLIMITED) ? "" : ", each sends at most " + link);
    }

    private int rounds() {
        return chosenRounds.orElse(model ? Prediction.ROUNDS : ROUNDS);
    }

    private boolean isSelected(Measure measure) {
        return only.isEmpty() || only.contains(measure);
    }

    private void measure(Measure measure, int world, List<Implementation> implementations, Path directory, Hosts hosts,
            PrintStream table, List<String> cases) {
        List<Integer> bytes = switch (measure) {
            case ALL_REDUCE -> sizes;
            case ROUND_TRIP -> List.of(message);
            default -> List.of(8);
        };
        try (ClusterComparison comparison = new ClusterComparison(directory.resolve(measure.label() + world),
                directory.resolve("openmpi"), hosts, table)) {
            for (Implementation implementation : implementations) {
                if (implementation.supports(measure)) {
                    comparison.add(implementation, measure, world);
                }
            }
            for (int size : bytes) {
                for (Finding finding : comparison.run(measure, size, rounds(), sampleMillis, warmupMillis)) {
                    cases.add(finding.json());
                    table.println(row(finding));
                }
            }
            failed |= comparison.hasFailed();
        }
    }

    private static String row(Finding f) {
        return ROW.formatted(f.measure().label() + " " + size(f.bytes()), f.world(), f.ours().name(),
            "%.2f".formatted(f.ourValue()), f.peer(), "%.2f".formatted(f.peerValue()), f.measure().unit(),
            "%.2f".formatted(f.ratio()), f.peerVariant());
    }

    static String size(long bytes) {
        return bytes % (1 << 10) > 0 ? bytes + " B" : bytes % (1 << 20) > 0 ? (bytes >> 10) + " KiB"
            : (bytes >> 20) + " MiB";
    }

    private static void delete(Path directory) {
        try (Stream<Path> all = Files.walk(directory)) {
            all.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
