package dev.starling.distributed.launch;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Deque;

/** Carries one output stream of a process to the console, line by line or as it is or not at all; keeps its end. */
final class OutputPump implements Runnable {
    /** A longer line is broken. */
    static final int LINE_LIMIT = 64 << 10;
    private static final byte[] WARNING = "WARNING: Using incubator modules".getBytes(StandardCharsets.US_ASCII);
    private static final int KEPT_LINE_LIMIT = 1000;
    private static final int READ_BYTES = 64 << 10;

    /** What becomes of the output. */
    enum Style {
        /** Whole lines, each led by the rank. */
        PREFIXED,
        /** Bytes as they are. */
        PLAIN,
        /** Only the last lines, for an error's message. */
        KEPT
    }

    private final InputStream from;
    private final Console to;
    private final byte[] prefix;
    private final Style style;
    private final Deque<String> lastLines;
    private final int keptLines;
    private final Runnable unread;
    private final byte[] line = new byte[LINE_LIMIT];
    private int length;

    /**
     * Makes a pump.
     *
     * @param lastLines is given the last lines, guarded by itself
     * @param unread is run when nobody reads the console any more; the pump goes on, so that the process does not block
     */
    OutputPump(InputStream from, Console to, byte[] prefix, Style style, Deque<String> lastLines,
            int keptLines, Runnable unread) {
        this.from = from;
        this.to = to;
        this.prefix = prefix;
        this.style = style;
        this.lastLines = lastLines;
        this.keptLines = keptLines;
        this.unread = unread;
    }

    @Override
    public void run() {
        byte[] buffer = new byte[READ_BYTES];
        boolean read = true;
        try {
            for (int count = withoutWarning(buffer, from.read(buffer)); count >= 0; count = from.read(buffer)) {
                boolean written = style != Style.PLAIN || to.write(buffer, count);
                for (int i = 0; i < count; i++) {
                    if (buffer[i] == '\n') {
                        written &= endLine();
                    } else {
                        if (length == LINE_LIMIT) {
                            written &= endLine();
                        }
                        line[length++] = buffer[i];
                    }
                }
                if (style == Style.PREFIXED && from.available() == 0) {
                    written &= to.flush();
                }
                if (read && !written) {
                    read = false;
                    unread.run();
                }
            }
        } catch (IOException processGone) {
            // What came before is all there is.
        }
        if (length > 0) {
            endLine();
        }
        to.flush();
    }

    /** Drops what every JVM that computes with vectors says first; returns how many bytes are left. */
    private static int withoutWarning(byte[] buffer, int count) {
        if (count < WARNING.length || !Arrays.equals(buffer, 0, WARNING.length, WARNING, 0, WARNING.length)) {
            return count;
        }
        int end = WARNING.length;
        while (end < count && buffer[end - 1] != '\n') {
            end++;
        }
        System.arraycopy(buffer, end, buffer, 0, count - end);
        return count - end;
    }

    private boolean endLine() {
        int start = Math.max(length - 1, 0);
        while (start > 0 && line[start - 1] != '\r') {
            start--;
        }
        String text = new String(line, start, Math.min(length - start, KEPT_LINE_LIMIT), StandardCharsets.UTF_8);
        synchronized (lastLines) {
            lastLines.addLast(text);
            if (lastLines.size() > keptLines) {
                lastLines.removeFirst();
            }
        }
        boolean written = style != Style.PREFIXED || to.write(prefix, line, 0, length, true);
        length = 0;
        return written;
    }
}
