package dev.starling.nn.train;

import java.nio.charset.Charset;
import java.util.Arrays;
import java.util.Locale;

/**
 * The text of a run's progress in a given width. Columns are assigned by importance: percent, loss, time left, the
 * metrics in their order, the rate, the bar, the unit. A part for which no columns remain is omitted.
 */
final class ProgressLine {
    private static final String GAP = "  ";
    private static final int MIN_BAR = 8;
    private static final int NAME_COLUMNS = 24;
    private static final int SHORT_NAME_COLUMNS = 12;
    private static final int VALUE_COLUMNS = 16;
    /** Positions of parts in the line; the metrics are between the loss and the rate. */
    private static final int EPOCH = 0;
    private static final int BAR = 1;
    private static final int PERCENT = 2;
    private static final int LOSS = 3;

    private final Glyphs glyphs;
    private final int room;
    private final String[] parts;
    private int used;

    /**
     * The characters of the drawing.
     *
     * @param filled the completed part of the bar
     * @param divider between groups of numbers
     * @param more replaces text that is cut off
     */
    record Glyphs(String filled, String divider, String more) {
        private static final Glyphs LINES = new Glyphs("━", "│", "…");
        private static final Glyphs ASCII = new Glyphs("=", "|", "~");

        /**
         * Chooses characters that occupy one column each on the terminal. In East Asian locales, line characters may
         * take two.
         */
        static Glyphs of(Charset charset, Locale locale) {
            boolean wide = Arrays.asList("ja", "ko", "zh").contains(locale.getLanguage());
            return !wide && charset.canEncode() && charset.newEncoder().canEncode("━│…") ? LINES : ASCII;
        }
    }

    private ProgressLine(Glyphs glyphs, int room, int metrics) {
        this.glyphs = glyphs;
        this.room = room;
        parts = new String[LOSS + metrics + 3];
        used = -GAP.length();
    }

    /** Returns the line for a terminal, with at most {@code room} columns. */
    static String of(Progress progress, String unit, Glyphs glyphs, int room) {
        ProgressLine line = new ProgressLine(glyphs, room, progress.metrics().size());
        line.numbers(progress, NAME_COLUMNS);
        line.bar(progress, MIN_BAR);
        line.unit(progress, unit);
        line.bar(progress, 2 * MIN_BAR);
        line.bar(progress, 3 * MIN_BAR);
        return line.toString();
    }

    /** Returns the line for a file: all numbers, and no bar. */
    static String of(Progress progress, String unit, Glyphs glyphs) {
        ProgressLine line = new ProgressLine(glyphs, Integer.MAX_VALUE, progress.metrics().size());
        line.numbers(progress, Integer.MAX_VALUE);
        line.unit(progress, unit);
        return line.toString();
    }

    private static double done(Progress progress) {
        return Math.clamp((double) progress.batch() / Math.max(1, progress.batches()), 0, 1);
    }

    private void bar(Progress progress, int columns) {
        int filled = (int) (done(progress) * columns);
        put(BAR, glyphs.filled.repeat(filled) + " ".repeat(columns - filled));
    }

    private void unit(Progress progress, String unit) {
        put(parts.length - 2, rate(progress.itemsPerSecond()) + " " + TextWidth.printable(unit) + "/s");
    }

    private void numbers(Progress progress, int nameColumns) {
        String epoch = progress.epoch() + "/" + progress.epochs();
        put(EPOCH, epoch);
        put(PERCENT, String.format(Locale.ROOT, "%3.0f %%", Math.floor(100 * done(progress))));
        put(LOSS, "loss " + number(progress.meanLoss()));
        double left = progress.secondsLeft();
        if (Double.isFinite(left)) {
            put(parts.length - 1, "ETA " + clock(left));
        }
        put(EPOCH, "epoch " + epoch);
        for (int i = 0; i < progress.metrics().size(); i++) {
            Metric metric = progress.metrics().get(i);
            String name = TextWidth.printable(metric.name());
            String value = " " + TextWidth.cut(TextWidth.printable(metric.format(progress.meanMetric(i))),
                    VALUE_COLUMNS, glyphs.more);
            if (!put(LOSS + 1 + i, TextWidth.cut(name, nameColumns, glyphs.more) + value)) {
                put(LOSS + 1 + i, TextWidth.cut(name, SHORT_NAME_COLUMNS, glyphs.more) + value);
            }
        }
        put(parts.length - 2, rate(progress.itemsPerSecond()) + "/s");
    }

    /** Replaces the text at a position if there is room for it; returns whether there was. */
    private boolean put(int position, String text) {
        int more = TextWidth.of(text) + (parts[position] == null ? GAP.length() : -TextWidth.of(parts[position]));
        if (used + more > room) {
            return false;
        }
        used += more;
        parts[position] = text;
        return true;
    }

    @Override
    public String toString() {
        StringBuilder line = new StringBuilder(160);
        for (String text : parts) {
            if (text != null) {
                line.append(line.isEmpty() ? "" : GAP).append(text);
            }
        }
        return line.toString();
    }

    /** Formats with four decimals, or with an exponent if that would show too few digits or take too many columns. */
    static String number(double value) {
        double size = Math.abs(value);
        return String.format(Locale.ROOT, size > 0 && size < 5e-5 || size >= 1e5 ? "%.3e" : "%.4f", value);
    }

    /** Formats a number of items per second. */
    static String rate(double value) {
        return String.format(Locale.ROOT, value >= 1e7 ? "%.1e" : value < 10 ? "%.1f" : "%,.0f", value);
    }

    /** Formats minutes and seconds, with hours if there are any; from four days on, days. */
    static String clock(double seconds) {
        if (!Double.isFinite(seconds)) {
            return "?";
        }
        long s = Math.round(seconds);
        if (s < 3600) {
            return String.format(Locale.ROOT, "%d:%02d", s / 60, s % 60);
        }
        long days = s / 86400;
        return days < 4 ? String.format(Locale.ROOT, "%d:%02d:%02d", s / 3600, s / 60 % 60, s % 60)
                : days < 1000 ? days + " d" : "> 999 d";
    }
}
