package dev.starling.distributed.launch;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Deque;
import org.jspecify.annotations.Nullable;

/**
 * Copies one output stream of a process to the console, by lines, unchanged, or not at all, and keeps its last lines.
 */
final class OutputPump implements Runnable {
    /** Maximum length of a line; a longer one is broken. */
    static final int LINE_LIMIT = 64 << 10;
    private static final byte[] WARNING = "WARNING: Using incubator modules".getBytes(StandardCharsets.US_ASCII);
    private static final int KEPT_LINE_LIMIT = 1000;
    private static final int READ_BYTES = 64 << 10;

    /** How the output is shown. */
    enum Style {
        /** Whole lines, each prefixed with the rank. */
        PREFIXED,
        /** Bytes, unchanged. */
        PLAIN,
        /** Not at all; only the last lines are kept, for an error message. */
        KEPT
    }

    private final InputStream from;
    private final Console to;
    private final byte[] prefix;
    private final Style style;
    private final Deque<String> lastLines;
    private final int keptLines;
    /** {@code null} if the output is not written to a file. */
    private final @Nullable RankLog log;
    private final Runnable onConsoleClosed;
    private final byte[] line = new byte[LINE_LIMIT];
    private int length;

    /**
     * Creates a pump.
     *
     * @param lastLines receives the last lines; guarded by itself
     * @param log gets every line, or is {@code null}
     * @param onConsoleClosed called when the console's reader is gone; the pump continues to read, so that the process
     *     does not block
     */
    OutputPump(InputStream from, Console to, byte[] prefix, Style style, Deque<String> lastLines,
            int keptLines, @Nullable RankLog log, Runnable onConsoleClosed) {
        this.from = from;
        this.to = to;
        this.prefix = prefix;
        this.style = style;
        this.lastLines = lastLines;
        this.keptLines = keptLines;
        this.log = log;
        this.onConsoleClosed = onConsoleClosed;
    }

    @Override
    public void run() {
        byte[] buffer = new byte[READ_BYTES];
        boolean consoleOpen = true;
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
                if (consoleOpen && !written) {
                    consoleOpen = false;
                    onConsoleClosed.run();
                }
            }
        } catch (IOException processGone) {
            // Output up to here is all there is.
        }
        if (length > 0) {
            endLine();
        }
        to.flush();
    }

    /**
     * Removes the warning that a JVM with the incubating Vector API prints first; returns the number of bytes left.
     */
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
        if (log != null) {
            log.writeLine(line, start, length - start);
        }
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
