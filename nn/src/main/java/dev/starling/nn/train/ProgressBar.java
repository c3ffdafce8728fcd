package dev.starling.nn.train;

import dev.starling.nn.train.ProgressLine.Glyphs;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.IntSupplier;
import org.jspecify.annotations.Nullable;

/**
 * Shows the progress of a run: on a terminal as a line that is redrawn, elsewhere as a plain line every few seconds,
 * and in both cases with a summary of each epoch.
 *
 * <p>On a terminal with at least 40 columns no line is wider than the terminal. The redrawn line omits the least
 * important parts and adapts when the user changes the width. A summary may take several lines.
 */
public final class ProgressBar implements TrainingListener {
    private static final long REDRAW_NS = 100_000_000L;
    private static final long LINE_NS = 10_000_000_000L;
    private static final String INDENT = "  ";

    private final PrintStream out;
    /** {@code null} if there is no terminal. */
    private final @Nullable StatusLine status;
    private final String unit;
    private final Glyphs glyphs;
    private @Nullable Thread shutdownHook;
    private long lastNs;

    private ProgressBar(PrintStream out, @Nullable StatusLine status, String unit) {
        this.out = out;
        this.status = status;
        this.unit = unit;
        glyphs = Glyphs.of(out.charset(), Locale.getDefault());
    }

    /** Shows progress on standard error. */
    public static ProgressBar onStandardError() {
        return on(System.err, Terminal.isStandardError());
    }

    /**
     * Shows progress on any stream.
     *
     * @param interactive whether the stream ends in {@linkplain Terminal the terminal} of this process
     */
    public static ProgressBar on(PrintStream stream, boolean interactive) {
        return on(stream, interactive, Terminal::columns);
    }

    /** Shows progress on a terminal whose width {@code columns} returns, each time it is drawn. */
    static ProgressBar on(PrintStream stream, boolean interactive, IntSupplier columns) {
        return new ProgressBar(stream, interactive ? new StatusLine(stream, columns) : null, "items");
    }

    /** Sets the plural noun for examples, for example {@code images}. */
    public ProgressBar unit(String plural) {
        return new ProgressBar(out, status, plural);
    }

    @Override
    public void started(Progress progress) {
        lastNs = System.nanoTime();
        if (progress.step() > 0) {
            out.println("resuming at epoch " + progress.epoch() + ", step " + progress.step());
        }
        if (status != null) {
            // Ctrl-C ends the JVM in the middle of the run. The shell's prompt then needs a line of its own.
            Thread hook = new Thread(status::leave, "starling-progress-end");
            try {
                Runtime.getRuntime().addShutdownHook(hook);
                shutdownHook = hook;
            } catch (IllegalStateException e) {
                shutdownHook = null; // The JVM ends already; this run is part of its end.
            }
        }
    }

    @Override
    public void stepEnded(Progress progress) {
        long now = System.nanoTime();
        if (now - lastNs < (status != null ? REDRAW_NS : LINE_NS)) {
            return;
        }
        lastNs = now;
        draw(progress);
    }

    /** Draws the line, however short the time since it was last drawn. */
    void draw(Progress progress) {
        if (status != null) {
            status.draw(ProgressLine.of(progress, unit, glyphs, status.room()));
        } else {
            out.println(ProgressLine.of(progress, unit, glyphs));
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        String epoch = "epoch " + report.epoch() + "/" + progress.epochs();
        List<List<String>> groups = new ArrayList<>();
        groups.add(new ArrayList<>(List.of(epoch)));
        groups.getFirst().addAll(report.training().parts());
        if (report.heldOut().isPresent()) {
            List<String> heldOut = new ArrayList<>(report.heldOut().get().parts());
            heldOut.set(0, "held-out " + heldOut.getFirst());
            groups.add(heldOut);
        }
        groups.add(List.of(ProgressLine.rate(report.itemsPerSecond()) + " " + unit + "/s",
                ProgressLine.clock(report.seconds())));
        if (progress.skipped() > 0) {
            groups.add(List.of("skipped by overflow: " + progress.skipped()));
        }
        if (status != null) {
            status.println(fold(groups, status.room()));
        } else {
            out.println(fold(groups, Integer.MAX_VALUE));
        }
        lastNs = System.nanoTime();
    }

    /**
     * Joins groups of numbers and breaks lines after {@code room} columns. A group is not split if it fits in one line.
     */
    private String fold(List<List<String>> groups, int room) {
        StringBuilder text = new StringBuilder(160);
        int column = 0;
        for (List<String> group : groups) {
            String whole = String.join("  ", group);
            boolean together = TextWidth.of(whole) + INDENT.length() <= room;
            for (String part : together ? List.of(whole) : group) {
                boolean first = together || part.equals(group.getFirst());
                String shown = TextWidth.cut(TextWidth.printable(part), room - INDENT.length(), glyphs.more());
                String before = text.isEmpty() ? "" : first ? "  " + glyphs.divider() + " " : "  ";
                if (column + TextWidth.of(before) + TextWidth.of(shown) > room) {
                    text.append(System.lineSeparator());
                    before = INDENT;
                    column = 0;
                }
                text.append(before).append(shown);
                column += TextWidth.of(before) + TextWidth.of(shown);
            }
        }
        return text.toString();
    }

    @Override
    public void ended(Progress progress) {
        if (status == null) {
            return;
        }
        if (shutdownHook != null) {
            try {
                Runtime.getRuntime().removeShutdownHook(shutdownHook);
            } catch (IllegalStateException whileTheJvmEnds) {
                return;
            }
            shutdownHook = null;
        }
        status.end();
    }
}
