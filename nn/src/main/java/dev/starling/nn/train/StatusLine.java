package dev.starling.nn.train;

import java.io.PrintStream;
import java.util.function.IntSupplier;

/**
 * The line of a terminal that is drawn anew, whatever its width is by then. Confined to one thread, but for
 * {@code leave}.
 */
public final class StatusLine {
    private static final String CLEAR_LINE = "\r\u001b[K";
    /**
     * Also clears the rows below, but some terminals take it for a cleared screen, if the cursor is in its first
     * row.
     */
    private static final String CLEAR_BELOW = "\r\u001b[J";
    /** A line that is too wide, because the width changed this very moment, is cut off and not wrapped. */
    private static final String WRAP_OFF = "\u001b[?7l";
    private static final String WRAP_ON = "\u001b[?7h";

    private final PrintStream out;
    private final IntSupplier columns;
    private int drawnColumns;
    private volatile boolean drawn;
    private volatile boolean left;

    /**
     * A line at the end of {@code stream}, a terminal that has as many columns as {@code columns} returns each
     * time.
     */
    public StatusLine(PrintStream stream, IntSupplier columns) {
        out = stream;
        this.columns = columns;
    }

    /** Returns how many columns a text may have: the last one stays empty, since some terminals wrap from there. */
    public int room() {
        return Math.max(1, columns.getAsInt() - 1);
    }

    /**
     * Shows a text in place of the one before, cut off where there is no room.
     *
     * <p>The cursor waits at its begin. Terminals that wrap a long line anew when they become narrower keep the cursor
     * in the first row of the line, so that the next text finds all of its rows.
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

    /** Prints lines that stay, in place of the text. */
    public void println(String lines) {
        out.println((!drawn ? "" : isNarrower(room()) ? CLEAR_BELOW : CLEAR_LINE) + lines);
        drawn = false;
    }

    /** Goes below the text, if there is one. */
    public void end() {
        if (drawn) {
            out.println();
            drawn = false;
        }
    }

    /** Goes below the text and draws no other: the JVM ends. May be called from any thread. */
    void leave() {
        left = true;
        end();
    }
}
