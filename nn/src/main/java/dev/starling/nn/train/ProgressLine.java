package dev.starling.nn.train;

import java.nio.charset.Charset;
import java.util.Arrays;
import java.util.Locale;

/**
 * The text of a run's progress in a given room. What matters most comes first when room is given out: percent, loss,
 * time left, the metrics in their order, the rate, the bar, the unit; what finds no room is left out.
 */
final class ProgressLine {
    private static final String GAP = "  ";
    private static final int MIN_BAR = 8;
    private static final int NAME_COLUMNS = 24;
    private static final int SHORT_NAME_COLUMNS = 12;
    private static final int VALUE_COLUMNS = 16;
    /** Places in the line; those of metrics lie between the loss and the rate. */
    private static final int EPOCH = 0;
    private static final int BAR = 1;
    private static final int PERCENT = 2;
    private static final int LOSS = 3;

    private final Glyphs glyphs;
    private final int room;
    private final String[] places;
    private int used;

    /**
     * The characters of the drawing.
     *
     * @param filled the done part of the bar
     * @param divider between groups of numbers
     * @param more in place of what is cut off
     */
    record Glyphs(String filled, String divider, String more) {
        private static final Glyphs LINES = new Glyphs("━", "│", "…");
        private static final Glyphs ASCII = new Glyphs("=", "|", "~");

        /** Chooses those that a terminal shows in one column each; in East Asia lines may take two. */
        static Glyphs of(Charset charset, Locale locale) {
            boolean isWide = Arrays.asList("ja", "ko", "zh").contains(locale.getLanguage());
            return !isWide && charset.canEncode() && charset.newEncoder().canEncode("━│…") ? LINES : ASCII;
        }
    }

    private ProgressLine(Glyphs glyphs, int room, int metrics) {
        this.glyphs = glyphs;
        this.room = room;
        places = new String[LOSS + metrics + 3];
        used = -GAP.length();
    }

    /** Returns the line of a terminal, in at most {@code room} columns. */
    static String of(Progress progress, String unit, Glyphs glyphs, int room) {
        ProgressLine line = new ProgressLine(glyphs, room, progress.metrics().size());
        line.numbers(progress, NAME_COLUMNS);
        line.bar(progress, MIN_BAR);
        line.unit(progress, unit);
        line.bar(progress, 2 * MIN_BAR);
        line.bar(progress, 3 * MIN_BAR);
        return line.toString();
    }

    /** Returns the line of a file: all numbers, and no bar. */
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
        put(places.length - 2, rate(progress.itemsPerSecond()) + " " + TextWidth.printable(unit) + "/s");
    }

    private void numbers(Progress progress, int nameColumns) {
        String epoch = progress.epoch() + 1 + "/" + progress.epochs();
        put(EPOCH, epoch);
        put(PERCENT, String.format(Locale.ROOT, "%3.0f %%", Math.floor(100 * done(progress))));
        put(LOSS, "loss " + number(progress.meanLoss()));
        double left = progress.secondsLeft();
        if (Double.isFinite(left)) {
            put(places.length - 1, "ETA " + clock(left));
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
        put(places.length - 2, rate(progress.itemsPerSecond()) + "/s");
    }

    /** Puts a text at a place, instead of what was there; returns whether there is room. */
    private boolean put(int place, String text) {
        int more = TextWidth.of(text) + (places[place] == null ? GAP.length() : -TextWidth.of(places[place]));
        if (used + more > room) {
            return false;
        }
        used += more;
        places[place] = text;
        return true;
    }

    @Override
    public String toString() {
        StringBuilder line = new StringBuilder(160);
        for (String text : places) {
            if (text != null) {
                line.append(line.isEmpty() ? "" : GAP).append(text);
            }
        }
        return line.toString();
    }

    /** Returns four places, with an exponent where that says too little or takes too much room. */
    static String number(double value) {
        double size = Math.abs(value);
        return String.format(Locale.ROOT, size > 0 && size < 5e-5 || size >= 1e5 ? "%.3e" : "%.4f", value);
    }

    /** Returns a number of items per second. */
    static String rate(double value) {
        return String.format(Locale.ROOT, value >= 1e7 ? "%.1e" : value < 10 ? "%.1f" : "%,.0f", value);
    }

    /** Returns minutes and seconds, with hours if there are any, or days from four on. */
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
