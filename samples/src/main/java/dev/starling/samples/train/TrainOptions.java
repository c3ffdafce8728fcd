package dev.starling.samples.train;

import dev.starling.tensor.DType;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import picocli.CommandLine.Option;

/** Command-line options of every sample. */
final class TrainOptions {
    private static final Set<DType> PRECISIONS = Set.of(DType.F32, DType.BF16, DType.F16);

    @Option(names = "--epochs", paramLabel = "N", description = "Passes over the training data.")
    Integer epochs;

    @Option(names = "--batch", paramLabel = "N",
            description = "Images per step: of all workers together with ring and ps --staleness 0, else of each "
                    + "worker.")
    Integer batch;

    @Option(names = "--rate", paramLabel = "R", description = "Highest learning rate of the one-cycle schedule.")
    Double rate;

    @Option(names = "--seed", paramLabel = "N", defaultValue = "1",
            description = "Seed of all random numbers; the same seed gives the same bits (default: ${DEFAULT-VALUE}).")
    long seed;

    @Option(names = "--threads", paramLabel = "N",
            description = "Number of threads of kernels (default: all processors, or a worker's share of them).")
    Integer threads;

    @Option(names = "--device", paramLabel = "D", defaultValue = "cpu",
            description = "cpu, cuda:N, or cuda for the first GPU or, with several workers, one GPU for each "
                    + "(default: ${DEFAULT-VALUE}).")
    String device;

    @Option(names = "--precision", paramLabel = "P",
            description = "Type in which layers compute: f32, bf16, or f16 with a scaled loss (default: f32; bf16 for "
                    + "cifar10 on a GPU).")
    DType precision;

    @Option(names = "--captured", negatable = true, description = "Record a step and replay it, on a GPU as one "
            + "graph: same results, less overhead (default for cifar10 on a GPU).")
    Boolean captured;

    @Option(names = "--explain", paramLabel = "FILE", description = "File for a page that shows the operations of a "
            + "step as the network issues them and as a replay carries them out; implies --captured.")
    Path explain;

    @Option(names = "--curve", paramLabel = "PNG", description = "File for the image of the learning curve.")
    Path curve;

    @Option(names = "--profile", paramLabel = "FILE",
            description = "File for a page that shows operations over time, or for a recording if it ends in .jfr.")
    Path profile;

    @Option(names = "--checkpoints", paramLabel = "DIR", description = "Save a checkpoint after every epoch.")
    Path checkpoints;

    @Option(names = "--resume", description = "Resume from the latest checkpoint.")
    boolean resume;

    @Option(names = "--skip-damaged", description = "Resume from the latest checkpoint that is intact.")
    boolean skipDamaged;

    @Option(names = "--summary", description = "Print the network's layers first.")
    boolean summary;

    @Option(names = "--json", description = "Print the result as one JSON object, the last line of standard output.")
    boolean json;

    /** Returns the message on an option that is out of its range or contradicts another, or {@code null}. */
    String badValue() {
        if (explain != null && Boolean.FALSE.equals(captured)) {
            return "--explain shows a captured step; omit --no-captured";
        }
        if (curve != null && !curve.toString().matches("(?s).*[.](png|svg)")) {
            return "--curve must name a file that ends in .png or .svg, got " + curve;
        }
        if ((resume || skipDamaged) && checkpoints == null) {
            return (resume ? "--resume" : "--skip-damaged") + " needs the directory of the checkpoints: add "
                    + "--checkpoints DIR";
        }
        if (precision != null && !PRECISIONS.contains(precision)) {
            return "--precision must be f32, bf16 or f16, got " + precision.name().toLowerCase(Locale.ROOT);
        }
        if (rate != null && rate.isInfinite()) {
            return "--rate must be finite, got " + rate + "; omit it for the default";
        }
        Map<String, Number> positive = new LinkedHashMap<>();
        positive.put("--epochs", epochs);
        positive.put("--batch", batch);
        positive.put("--rate", rate);
        positive.put("--threads", threads);
        return positive.entrySet().stream().filter(e -> e.getValue() != null && !(e.getValue().doubleValue() > 0))
                .map(e -> e.getKey() + " must be positive, got " + e.getValue() + "; omit it for the default")
                .findFirst().orElse(null);
    }

    /**
     * Returns the message on a file that this process, or the first one that it starts, cannot write, or {@code null}.
     */
    String badFile() {
        for (Path file : new Path[] {explain, profile}) {
            if (file != null && (Files.isDirectory(file) || !Files.isDirectory(file.toAbsolutePath().getParent()))) {
                return (file == explain ? "--explain" : "--profile") + " must name a file in a directory that exists, "
                        + "got " + file;
            }
        }
        return null;
    }

    boolean isOnGpu() {
        return device.matches("cuda(:.*)?");
    }
}
