package dev.starling.nn.train;

import java.io.Console;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Shows how a run goes: on a terminal a line that is drawn anew, elsewhere a plain line every few seconds; and in both
 * a line for each epoch.
 */
public final class ProgressBar implements TrainingListener {
    private static final int WIDTH = 24;
    private static final long REDRAW_NS = 100_000_000L;
    private static final long LINE_NS = 10_000_000_000L;
    private static final String CLEAR = "\r\u001b[K";

    private final PrintStream out;
    private final boolean interactive;
    private final String unit;
    private final StringBuilder line = new StringBuilder(160);
    private long lastNs;
    private boolean drawn;

    private ProgressBar(PrintStream out, boolean interactive, String unit) {
        this.out = out;
        this.interactive = interactive;
        this.unit = unit;
    }

    /** Shows progress on standard error. */
    public static ProgressBar onStandardError() {
        return on(System.err, isTerminal());
    }

    /**
     * Shows progress on any stream.
     *
     * @param interactive whether it is a terminal that can clear a line
     */
    public static ProgressBar on(PrintStream stream, boolean interactive) {
        return new ProgressBar(stream, interactive, "items");
    }

    /** Names what examples are, for example {@code images}. */
    public ProgressBar unit(String plural) {
        return new ProgressBar(out, interactive, plural);
    }

    private static boolean isTerminal() {
        String term = System.getenv("TERM");
        if ("dumb".equals(term)) {
            return false;
        }
        try {
            Path target = Files.readSymbolicLink(Path.of("/proc/self/fd/2"));
            return target.startsWith("/dev/pts") || target.toString().startsWith("/dev/tty");
        } catch (IOException | UnsupportedOperationException noProc) {
            Console console = System.console();
            return term != null && console != null && console.isTerminal();
        }
    }

    @Override
    public void started(Progress progress) {
        lastNs = System.nanoTime();
        if (progress.step() > 0) {
            out.println("goes on at epoch " + (progress.epoch() + 1) + ", step " + progress.step());
        }
    }

    @Override
    public void stepEnded(Progress progress) {
        long now = System.nanoTime();
        if (now - lastNs < (interactive ? REDRAW_NS : LINE_NS)) {
            return;
        }
        lastNs = now;
        draw(progress);
        if (interactive) {
            out.print(line);
            out.flush();
            drawn = true;
        } else {
            out.println(line);
        }
    }

    private void draw(Progress progress) {
        line.setLength(0);
        double done = (double) progress.batch() / Math.max(1, progress.batches());
        if (interactive) {
            line.append(CLEAR);
        }
        line.append("epoch ").append(progress.epoch() + 1).append('/').append(progress.epochs()).append("  ");
        if (interactive) {
            int filled = (int) (done * WIDTH);
            line.append("━".repeat(filled)).append(" ".repeat(WIDTH - filled)).append("  ");
        }
        line.append(String.format(Locale.ROOT, "%3.0f %%  loss %.4f", Math.floor(100 * done), progress.meanLoss()));
        for (int i = 0; i < progress.metrics().size(); i++) {
            Metric metric = progress.metrics().get(i);
            line.append("  ").append(metric.name()).append(' ').append(metric.format(progress.meanMetric(i)));
        }
        line.append(String.format(Locale.ROOT, "  %,.0f %s/s  ETA ", progress.itemsPerSecond(), unit))
                .append(clock(progress.secondsLeft()));
    }

    /** Returns minutes and seconds, with hours if there are any. */
    static String clock(double seconds) {
        if (!Double.isFinite(seconds)) {
            return "?";
        }
        long s = Math.round(seconds);
        return s < 3600 ? String.format(Locale.ROOT, "%d:%02d", s / 60, s % 60)
                : String.format(Locale.ROOT, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60);
    }

    @Override
    public void epochEnded(Progress progress, EpochReport report) {
        StringBuilder summary = new StringBuilder(drawn ? CLEAR : "");
        summary.append("epoch ").append(report.epoch() + 1).append('/').append(progress.epochs()).append("  ")
                .append(report.training());
        if (report.heldOut() != null) {
            summary.append("  │ held-out ").append(report.heldOut());
        }
        summary.append(String.format(Locale.ROOT, "  │ %,.0f %s/s  ", report.itemsPerSecond(), unit))
                .append(clock(report.seconds()));
        if (progress.skipped() > 0) {
            summary.append("  │ skipped by overflow: ").append(progress.skipped());
        }
        out.println(summary);
        drawn = false;
        lastNs = System.nanoTime();
    }

    @Override
    public void ended(Progress progress) {
        if (drawn) {
            out.println();
            drawn = false;
        }
    }
}
