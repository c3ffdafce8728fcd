package dev.starling.study;

import dev.starling.errors.StarlingException;
import dev.starling.nn.data.DataException;
import dev.starling.samples.data.Cifar10;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Split;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.TimeoutException;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Measures the table of images per second and time to an accuracy on CIFAR-10. */
@Command(name = "cifar10", mixinStandardHelpOptions = true, description = "Train on photographs (downloads 170 MB once,"
        + " unless --data has them) by one process, ring, parameter server, gossip, Spark and a GPU where there is one;"
        + " print images per second and time to an accuracy, and how long messages take.")
final class Cifar10Command implements Callable<Integer> {
    /** What to do if a temporary file cannot be written. */
    static final String TEMPORARY = "free some space there, or choose another folder for temporary files by "
            + "JDK_JAVA_OPTIONS=-Djava.io.tmpdir=DIR";

    private static final String MESSAGES = "messages";
    private static final int IMAGES = 50_000;
    private static final int QUICK_WIDTH = 24;
    /** A network of the quick width does not reach 85 %. */
    private static final int WIDTH = 48;
    private static final int BATCH = 96;
    private static final double RATE = 4e-3;
    /** Minutes, nearly two years; waits are counted in nanoseconds of 64 bits. */
    private static final int MAX_LIMIT = 1_000_000;

    @Option(names = "--data", paramLabel = "DIR", description = "Folder of the official files.")
    private Path data;

    @Option(names = "--quick", description = "To 70 %%, one run of each row, in place of 85 %% and three.")
    private boolean quick;

    @Option(names = "--goal", paramLabel = "PERCENT", description = "Accuracy to reach (default: 85; 70 with --quick).")
    private Double goal;

    @Option(names = "--runs", paramLabel = "N", description = "Runs of each row (default: 3; 1 with --quick).")
    private Integer runs;

    @Option(names = "--epochs", paramLabel = "N", description = "Passes over the images (default: 12; 3 with --quick).")
    private Integer epochs;

    @Option(names = "--channels", paramLabel = "N",
            description = "Channels of the network's first convolution (default: 48; 24 with --quick).")
    private Integer channels;

    @Option(names = "--limit", paramLabel = "MINUTES", defaultValue = "30",
            description = "Longest training of one run (default: ${DEFAULT-VALUE}).")
    private double limit;

    @Option(names = "--rows", paramLabel = "ROW", split = ",", description = "Only these of single, ring-2, ring-4, "
            + "ps-async, ps-stale, gossip-4, spark-2, gpu and messages (default: all).")
    private List<String> rows = List.of();

    @Option(names = "--json", paramLabel = "FILE", description = "Write all figures there, after each run.")
    private Path json;

    @Option(names = "--resume", description = "Keep what the file of --json holds, and measure the rest.")
    private boolean resume;

    @Option(names = "--markdown", paramLabel = "FILE", description = "Write the table there, too: between the "
            + "lines <!-- study --> and <!-- end of study --> of a file that has them, else in place of an older "
            + "table.")
    private Path markdown;

    @Option(names = "--chart", paramLabel = "FILE", description = "Draw the figures there; .svg or .png. May be "
            + "given twice.")
    private List<Path> charts = List.of();

    @Spec
    private CommandSpec spec;

    @Override
    public Integer call() throws InterruptedException {
        try {
            List<Setup> setups = setups();
            check();
            Recipe recipe = new Recipe(IMAGES, channels != null ? channels : quick ? QUICK_WIDTH : WIDTH,
                    epochs != null ? epochs : quick ? 3 : 12, BATCH, RATE, quick ? 10_000 : 25_000, 60 * limit);
            Result begin = initial(recipe);
            measure(setups, recipe, begin);
            return 0;
        } catch (StarlingException | IllegalStateException | UncheckedIOException e) {
            spec.commandLine().getErr().println("starling: " + e.getMessage());
            return 1;
        }
    }

    private List<Setup> setups() {
        try {
            return rows.isEmpty() ? Arrays.asList(Setup.values())
                    : rows.stream().filter(row -> !row.equals(MESSAGES)).map(Setup::of).distinct().toList();
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), "--rows: " + e.getMessage() + ", " + MESSAGES);
        }
    }

    private void check() {
        require(goal == null || goal > 0 && goal < 100, "--goal must be above 0 and below 100, got " + goal);
        require(runs == null || runs > 0, "--runs must be 1 or more, got " + runs);
        require(epochs == null || epochs > 0, "--epochs must be 1 or more, got " + epochs);
        require(channels == null || channels > 0, "--channels must be 1 or more, got " + channels);
        require(limit > 0 && limit <= MAX_LIMIT, "--limit must be above 0 and at most " + MAX_LIMIT + " minutes, got "
                + limit);
        require(!resume || json != null, "--resume continues the file of --json: name it");
        for (Path chart : charts) {
            require(Chart.isDrawable(chart), "--chart must end in .svg or .png, got " + chart);
            // A run takes many minutes, and draws at its end.
            Path directory = chart.toAbsolutePath().getParent();
            while (directory != null && !Files.exists(directory)) {
                directory = directory.getParent(); // One that is absent is created.
            }
            require(directory != null && Files.isDirectory(directory) && Files.isWritable(directory), "--chart needs a "
                    + "directory that can be written, got " + chart);
        }
        if (markdown != null) {
            Table.read(markdown);
        }
    }

    private void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new ParameterException(spec.commandLine(), otherwise);
        }
    }

    private Result initial(Recipe recipe) {
        Result nothing = new Result(LocalDate.now().toString(), Machine.here(),
                (goal != null ? goal : quick ? 70 : 85) / 100, recipe, List.of(), List.of());
        if (!resume || !Files.exists(json)) {
            return nothing;
        }
        Result known = Json.read(json, Result.class);
        if (!known.isComparable(nothing)) {
            throw new IllegalStateException(json + " has rows of another machine, goal or recipe (" + known.machine()
                    + ", " + known.goal() + ", " + known.recipe() + "); name another file, or leave out --resume");
        }
        return known;
    }

    private void measure(List<Setup> setups, Recipe recipe, Result begin) throws InterruptedException {
        Path directory = scratch();
        Thread hook = new Thread(() -> delete(directory), "starling-study-end");
        Runtime.getRuntime().addShutdownHook(hook);
        Result result = begin;
        if (!setups.isEmpty()) {
            Split split = Cifar10.load(DataDirectory.of(data, System.err));
            Study study = new Study(split.train(), split.test(), recipe, directory, System.err);
            result = study.measure(setups, runs != null ? runs : quick ? 1 : 3, begin, this::save);
        }
        if ((rows.isEmpty() || rows.contains(MESSAGES)) && result.messages().isEmpty()) {
            System.err.println("messages");
            try {
                result = result.with(Messages.measure(System.err));
            } catch (StarlingException | IllegalStateException | TimeoutException e) {
                System.err.println("messages: " + e);
            }
        }
        save(result);
        String table = Table.markdown(result);
        spec.commandLine().getOut().print(table);
        spec.commandLine().getOut().flush();
        if (markdown != null) {
            Table.write(markdown, result);
        }
        for (Path chart : charts) {
            Chart.of(result).write(chart);
        }
    }

    private void save(Result result) {
        if (json != null) {
            Json.write(json, result);
        }
    }

    private static Path scratch() {
        try {
            return Files.createTempDirectory("starling-study");
        } catch (IOException e) {
            throw new DataException(Path.of(System.getProperty("java.io.tmpdir")), "a folder for temporary files",
                    e.toString(), TEMPORARY, e);
        }
    }

    private static void delete(Path directory) {
        List<Path> all = new ArrayList<>();
        try (Stream<Path> walk = Files.walk(directory)) {
            walk.sorted(Comparator.reverseOrder()).forEach(all::add);
        } catch (IOException | UncheckedIOException e) {
            System.err.println("cannot remove " + directory + ": " + e);
        }
        all.forEach(path -> path.toFile().delete());
    }
}
