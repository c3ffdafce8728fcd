package dev.starling.nn.train;

import dev.starling.errors.PlainFile;
import dev.starling.nn.checkpoint.Json;
import dev.starling.nn.data.DataException;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.DoubleSupplier;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/**
 * Writes a line for each epoch: its number, the number of steps, seconds, items per second, loss and metrics of the
 * training, and where there is held-out data, the same with {@code held_out_} before their names.
 *
 * <pre>{@code
 * TrainingLog log = TrainingLog.csv(Path.of("log.csv")).column("rate", optimizer::rate);
 * Trainer.of(model, loss, optimizer).data(train).heldOut(test).listeners(log)...
 * }</pre>
 *
 * <p>A run that starts replaces the file; one that resumes keeps the lines of epochs before its own. With several
 * processes, rank 0 writes the file; a process that takes the place of rank 0 continues it, if it has this listener. A
 * file that cannot be written ends the run with a {@link DataException}.
 */
public final class TrainingLog implements TrainingListener {
    private static final String EPOCH = "epoch";
    private static final String HELD_OUT = "held_out_";
    private static final Pattern NUMBER = Pattern.compile("(?:\\{\"epoch\":)?(\\d{1,9}),.*");
    private static final int UNKNOWN = Integer.MAX_VALUE;

    private final Path file;
    private final boolean csv;
    private final Map<String, DoubleSupplier> columns = new LinkedHashMap<>();
    /** The last epoch in the file, or that it is unknown because this process has not written the file. */
    private int last = UNKNOWN;

    private TrainingLog(Path file, boolean csv) {
        this.file = file;
        this.csv = csv;
    }

    /** Returns a log of comma-separated values (RFC 4180), with a first line of names. */
    public static TrainingLog csv(Path file) {
        return new TrainingLog(file, true);
    }

    /** Returns a log with a JSON object in each line. A number that is not finite is {@code null}. */
    public static TrainingLog jsonLines(Path file) {
        return new TrainingLog(file, false);
    }

    /** Adds a number that is read at the end of each epoch. */
    public TrainingLog column(String name, DoubleSupplier value) {
        columns.put(name, value);
        return this;
    }

    @Override
    public void started(Progress progress) {
        if (progress.rank() == 0) {
            keepBefore(progress.step() == 0 ? 0 : progress.epoch());
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        if (progress.rank() != 0) {
            last = UNKNOWN;
            return;
        }
        if (report.epoch() <= last) {
            // The epoch was repeated because the state was restored, or another process was rank 0 before.
            keepBefore(report.epoch());
        }
        Map<String, Number> values = new LinkedHashMap<>();
        values.put(EPOCH, report.epoch());
        values.put("step", report.step());
        values.put("seconds", report.seconds());
        values.put("items_per_second", report.itemsPerSecond());
        values.put("loss", report.training().loss());
        values.putAll(report.training().metrics());
        report.heldOut().ifPresent(scores -> {
            values.put(HELD_OUT + "loss", scores.loss());
            scores.metrics().forEach((name, value) -> values.put(HELD_OUT + name, value));
        });
        columns.forEach((name, value) -> values.put(name, value.getAsDouble()));
        write(() -> {
            if (csv && Files.size(file) == 0) {
                append(join(values, each -> quoted(each.getKey())));
            }
            append(csv ? join(values, each -> each.getValue().toString())
                    : "{" + join(values, each -> Json.quoted(each.getKey()) + ":" + json(each.getValue())) + "}");
        });
        last = report.epoch();
    }

    private static String join(Map<String, Number> values, Function<Map.Entry<String, Number>, String> text) {
        return values.entrySet().stream().map(text).collect(Collectors.joining(","));
    }

    private static String quoted(String name) {
        return name.matches("[^,\"\\r\\n]*") ? name : '"' + name.replace("\"", "\"\"") + '"';
    }

    private static String json(Number value) {
        return Double.isFinite(value.doubleValue()) ? value.toString() : "null";
    }

    /** Keeps the lines of epochs before one, with the line of names if any of them is left. */
    private void keepBefore(int epoch) {
        write(() -> {
            if (file.toAbsolutePath().getParent() instanceof Path directory) {
                Files.createDirectories(directory);
            }
            List<String> kept = new ArrayList<>();
            boolean numbered = false;
            for (String line : Files.isRegularFile(file) && epoch > 1 ? Files.readAllLines(file) : List.<String>of()) {
                Matcher number = NUMBER.matcher(line);
                boolean matches = number.matches();
                // What follows epochs without a number is a line of which a full disk has kept the start only.
                if (matches ? Integer.parseInt(number.group(1)) < epoch : !numbered) {
                    kept.add(line);
                }
                numbered |= matches;
            }
            if (kept.isEmpty()) {
                Files.write(file, kept);
            } else {
                replace(PlainFile.target(file), kept);
            }
        });
        last = epoch - 1;
    }

    /** Replaces a file when its new lines are written: a process that is killed meanwhile loses none of them. */
    private static void replace(Path target, List<String> lines) throws IOException {
        Path draft = PlainFile.draft(target);
        try {
            Files.write(draft, lines);
            PlainFile.rename(draft, target);
        } finally {
            Files.deleteIfExists(draft);
        }
    }

    private void append(String line) throws IOException {
        Files.writeString(file, line + "\n", StandardOpenOption.APPEND);
    }

    private interface Writing {
        void run() throws IOException;
    }

    private void write(Writing writing) {
        try {
            writing.run();
        } catch (IOException e) {
            throw new DataException(file, "a log that can be written", e.toString(),
                    "choose another file or free some space", e);
        }
    }

    @Override
    public String toString() {
        return "log in " + file;
    }
}
