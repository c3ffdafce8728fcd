package dev.starling.study;

import dev.starling.nn.data.DataException;
import dev.starling.study.Result.Outcome;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

/** Writes a result as Markdown. */
final class Table {
    private static final String BEGIN = "<!-- study -->";
    private static final String END = "<!-- end of study -->";
    /** The lines around a table, the first with its line break, and what is between them. */
    private static final Pattern PLACE = Pattern.compile("(?ms)^" + BEGIN + "(\\R)(.*?)^" + END + "$");
    /** How each text of {@link #markdown} begins. */
    private static final String FIRST = "Machine: ";

    private Table() {
    }

    /** Returns a caption, the table of rows and, if messages were measured, a table of messages. */
    static String markdown(Result result) {
        StringBuilder text = new StringBuilder();
        Recipe recipe = result.recipe();
        String goal = goal(result);
        text.append(String.format(Locale.ROOT, FIRST + "%s; %s. %,d images to train on in %d epochs, %s at most; "
                + "a first convolution of %d channels; %d images in a step of all workers; Adam with a greatest rate "
                + "of %s; accuracy measured every %,d images.%n%n", result.machine().describe(), result.date(),
                recipe.images(), recipe.epochs(), minutes(recipe.limitSeconds()), recipe.width(), recipe.batch(),
                recipe.rate(), recipe.every()));
        if (!result.rows().isEmpty()) {
            text.append(rows(result, goal));
        }
        if (!result.messages().isEmpty()) {
            text.append(String.format(Locale.ROOT, "%n| message of %,d bytes between two processes | there and back | "
                    + "one way |%n| --- | --- | --- |%n", result.messages().getFirst().bytes()));
            result.messages().forEach(m -> text.append(String.format(Locale.ROOT, "| %s | %s µs | %s µs |%n",
                    title(m.implementation()), number(m.microseconds()), number(m.microseconds() / 2))));
        }
        return text.toString();
    }

    /**
     * Writes a result into a file: between the lines {@code <!-- study -->} and {@code <!-- end of study -->} if it has
     * both, else in place of a table that is its whole content. The rest of a page is never lost.
     *
     * @throws DataException if the file cannot be read or written, or has other content without these lines, which is
     *     kept
     */
    static void write(Path file, Result result) {
        String text = read(file);
        Matcher place = PLACE.matcher(text);
        String table = markdown(result);
        if (place.find()) {
            table = text.substring(0, place.start(2)) + table.stripTrailing().lines()
                    .collect(Collectors.joining(place.group(1), "", place.group(1))) + text.substring(place.end(2));
        }
        String whole = table;
        WholeFile.write(file, draft -> Files.writeString(draft, whole));
    }

    /** Checks that a file can hold a result: it is absent, empty, a table, or has a place for one; returns its text. */
    static String read(Path file) {
        try {
            String text = Files.exists(file) ? Files.readString(file) : "";
            boolean isTable = text.startsWith(FIRST) && !text.contains(BEGIN) && !text.contains(END);
            if (!text.isBlank() && !isTable && !PLACE.matcher(text).find()) {
                throw new DataException(file, "a table, or the lines " + BEGIN + " and " + END + " around one",
                        "other text", "add both lines, or choose another place");
            }
            return text;
        } catch (IOException e) {
            throw new DataException(file, "a text file that can be read", e.toString(), "choose another place", e);
        }
    }

    private static String rows(Result result, String goal) {
        StringBuilder text = new StringBuilder();
        text.append(String.format("| row | processes | images/s | time to %s | images to %s | accuracy at the end | "
                + "runs |%n| --- | --- | --- | --- | --- | --- | --- |%n", goal, goal));
        for (Outcome outcome : result.rows()) {
            text.append(row(outcome, result.goal()));
        }
        return text.toString();
    }

    private static String row(Outcome outcome, double goal) {
        Setup setup = outcome.setup();
        List<Run> runs = outcome.runs();
        String processes = setup.servers() == 0 ? Integer.toString(setup.workers())
                : setup.workers() + " + " + setup.servers();
        if (runs.isEmpty()) {
            return String.format("| %s | %s | – | %s | – | – | 0 |%n", setup.title(), processes,
                    outcome.problem() == null ? "not measured" : cell(outcome.problem()));
        }
        List<Run> reached = runs.stream().filter(run -> run.secondsTo(goal).isPresent()).toList();
        String time = reached.size() < runs.size()
                ? "not reached by " + (runs.size() - reached.size()) + " of " + runs.size()
                : spread(reached, run -> run.secondsTo(goal).getAsDouble()) + " s";
        String images = reached.size() < runs.size() ? "–" : spread(reached, run -> run.imagesTo(goal).getAsDouble());
        return String.format(Locale.ROOT, "| %s | %s | %s | %s | %s | %s | %d%s |%n", setup.title(), processes,
                spread(runs, Run::imagesPerSecond), time, images,
                percent(mean(runs, run -> run.points().getLast().accuracy()), 1), runs.size(),
                outcome.problem() == null ? "" : ", " + cell(outcome.problem()));
    }

    /** Returns a message as the text of a cell, which cannot hold a bar or a line break. */
    private static String cell(String message) {
        return message.replace('|', '/').replaceAll("\\s*\\R\\s*", " ");
    }

    /** Returns the name of a kind of message. */
    static String title(String implementation) {
        return switch (implementation) {
            case "starling" -> "Starling, shared memory of the host";
            case "starling network tcp" -> "Starling, TCP";
            case "starling network aeron" -> "Starling, Aeron over UDP";
            case "starling network ucx" -> "Starling, UCX over TCP";
            case "grpc" -> "grpc-java, a unary call";
            default -> implementation;
        };
    }

    /** Returns the mean and, if there are several runs, minimum and maximum. */
    private static String spread(List<Run> runs, ToDoubleFunction<Run> value) {
        String mean = number(mean(runs, value));
        return runs.size() == 1 ? mean : mean + runs.stream().mapToDouble(value).sorted().mapToObj(Table::number)
                .collect(Collectors.collectingAndThen(Collectors.toList(), all -> " (" + all.getFirst() + "–"
                        + all.getLast() + ")"));
    }

    static double mean(List<Run> runs, ToDoubleFunction<Run> value) {
        return runs.stream().mapToDouble(value).average().orElse(Double.NaN);
    }

    /** Formats a number with three digits or more. */
    static String number(double value) {
        return String.format(Locale.ROOT, value >= 100 ? "%,.0f" : value >= 10 ? "%.1f" : "%.2f", value);
    }

    static String percent(double share, int digits) {
        return String.format(Locale.ROOT, "%." + digits + "f %%", 100 * share);
    }

    /** Returns the accuracy to reach, without zeros at the end: {@code 70 %}, {@code 72.5 %}. */
    static String goal(Result result) {
        return percent(result.goal(), 2).replaceAll("\\.?0+ %$", " %");
    }

    private static String minutes(double seconds) {
        return number(seconds / 60).replaceAll("\\.0+$", "") + " minutes";
    }
}
