package dev.starling.nn.train;

import dev.starling.nn.train.ProgressLine.Glyphs;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.IntSupplier;

/**
 * Shows how a run goes: on a terminal a line that is drawn anew, elsewhere a plain line every few seconds; and in both
 * a summary of each epoch.
 *
 * <p>On a terminal no line is wider than that has columns, from 40 on. The line that is drawn anew leaves out what
 * matters least, and follows the terminal when a user changes its width; a summary takes more lines.
 */
public final class ProgressBar implements TrainingListener {
    private static final long REDRAW_NS = 100_000_000L;
    private static final long LINE_NS = 10_000_000_000L;
    private static final String INDENT = "  ";

    private final PrintStream out;
    /** {@code null} where there is no terminal. */
    private final StatusLine status;
    private final String unit;
    private final Glyphs glyphs;
    private Thread interruption;
    private long lastNs;

    private ProgressBar(PrintStream out, StatusLine status, String unit) {
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
     * @param interactive whether it ends in {@linkplain Terminal the terminal} of this process
     */
    public static ProgressBar on(PrintStream stream, boolean interactive) {
        return on(stream, interactive, Terminal::columns);
    }

    /** Shows progress on a terminal that has as many columns as {@code columns} returns at each drawing. */
    static ProgressBar on(PrintStream stream, boolean interactive, IntSupplier columns) {
        return new ProgressBar(stream, interactive ? new StatusLine(stream, columns) : null, "items");
    }

    /** Names what examples are, for example {@code images}. */
    public ProgressBar unit(String plural) {
        return new ProgressBar(out, status, plural);
    }

    @Override
    public void started(Progress progress) {
        lastNs = System.nanoTime();
        if (progress.step() > 0) {
            out.println("goes on at epoch " + (progress.epoch() + 1) + ", step " + progress.step());
        }
        if (status != null) {
            // By Ctrl-C the JVM ends while the run goes on: a shell that comes back finds a line of its own.
            interruption = new Thread(status::leave, "starling-progress-end");
            Runtime.getRuntime().addShutdownHook(interruption);
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

    /** Draws the line, whatever the time. */
    void draw(Progress progress) {
        if (status != null) {
            status.draw(ProgressLine.of(progress, unit, glyphs, status.room()));
        } else {
            out.println(ProgressLine.of(progress, unit, glyphs));
        }
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        String epoch = "epoch " + (report.epoch() + 1) + "/" + progress.epochs();
        List<List<String>> groups = new ArrayList<>();
        groups.add(new ArrayList<>(List.of(epoch)));
        groups.getFirst().addAll(report.training().parts());
        if (report.heldOut() != null) {
            List<String> heldOut = new ArrayList<>(report.heldOut().parts());
            heldOut.set(0, "held-out " + heldOut.getFirst());
            groups.add(heldOut);
        }
        groups.add(List.of(ProgressLine.rate(report.itemsPerSecond()) + " " + unit + "/s",
                ProgressLine.clock(report.seconds())));
        if (progress.skipped() > 0) {
            groups.add(List.of("skipped by overflow: " + progress.skipped()));
        }
        if (status != null) {
            status.println(folded(groups, status.room()));
        } else {
            out.println(folded(groups, Integer.MAX_VALUE));
        }
        lastNs = System.nanoTime();
    }

    /** Joins groups of numbers, on a new line where {@code room} ends; a group stays together if it fits in a line. */
    private String folded(List<List<String>> groups, int room) {
        StringBuilder text = new StringBuilder(160);
        int column = 0;
        for (List<String> group : groups) {
            String whole = String.join("  ", group);
            boolean isTogether = TextWidth.of(whole) + INDENT.length() <= room;
            for (String part : isTogether ? List.of(whole) : group) {
                boolean isFirst = isTogether || part.equals(group.getFirst());
                String shown = TextWidth.cut(TextWidth.printable(part), room - INDENT.length(), glyphs.more());
                String before = text.isEmpty() ? "" : isFirst ? "  " + glyphs.divider() + " " : "  ";
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
        if (interruption != null) {
            try {
                Runtime.getRuntime().removeShutdownHook(interruption);
            } catch (IllegalStateException whileTheJvmEnds) {
                return;
            }
            interruption = null;
        }
        status.end();
    }
}
