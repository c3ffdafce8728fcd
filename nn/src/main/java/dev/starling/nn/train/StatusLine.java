package dev.starling.nn.train;

import java.io.PrintStream;
import java.util.function.IntSupplier;

/**
 * A line of a terminal that can be redrawn, also after the width of the terminal has changed. Confined to one thread,
 * except for {@code leave}.
 */
public final class StatusLine {
    private static final String CLEAR_LINE = "\r\u001b[K";
    /**
     * Clears the line and the rows below it. Some terminals treat this as clearing the whole screen if the cursor is in
     * the first row.
     */
    private static final String CLEAR_BELOW = "\r\u001b[J";
    /** Turns wrapping off: if the width changes while a line is drawn, a line that is too wide is cut off. */
    private static final String WRAP_OFF = "\u001b[?7l";
    private static final String WRAP_ON = "\u001b[?7h";

    private final PrintStream out;
    private final IntSupplier columns;
    private int drawnColumns;
    private volatile boolean drawn;
    private volatile boolean left;

    /**
     * Creates a line at the end of {@code stream}.
     *
     * @param stream a terminal
     * @param columns returns the current width of the terminal
     */
    public StatusLine(PrintStream stream, IntSupplier columns) {
        out = stream;
        this.columns = columns;
    }

    /** Returns the columns available for a text. The last column stays empty because some terminals wrap after it. */
    public int room() {
        return Math.max(1, columns.getAsInt() - 1);
    }

    /**
     * Replaces the text of the line. A text that is too long is cut off.
     *
     * <p>The cursor stays at the start of the line. Terminals that rewrap a long line when they become narrower keep
     * the cursor in the line's first row, so that the next text replaces all of its rows.
     */
    public void draw(String text) {
        int room = room();
        if (!left) {
            out.print((isNarrower(room) ? CLEAR_BELOW : CLEAR_LINE) + WRAP_OFF + TextWidth.cut(text, room, "")
                    + WRAP_ON + "\r");
            out.flush();
            drawnColumns = room;
            drawn = true;
        }
    }

    private boolean isNarrower(int room) {
        return drawn && room < drawnColumns;
    }

    /** Prints permanent lines in place of the text. */
    public void println(String lines) {
        out.println((!drawn ? "" : isNarrower(room()) ? CLEAR_BELOW : CLEAR_LINE) + lines);
        drawn = false;
    }

    /** Moves the cursor below the text, if there is one. */
    public void end() {
        if (drawn) {
            out.println();
            drawn = false;
        }
    }

    /**
     * Moves the cursor below the text and stops drawing, because the JVM is shutting down. May be called from any
     * thread.
     */
    void leave() {
        left = true;
        end();
    }
}
