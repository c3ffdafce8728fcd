package dev.starling.samples.data;

import dev.starling.nn.data.Download;
import dev.starling.nn.train.StatusLine;
import dev.starling.nn.train.Terminal;
import java.io.PrintStream;
import java.util.Locale;
import java.util.function.IntSupplier;

/** Shows the progress of a download on one line of a terminal, or only its end if there is no terminal. */
final class TransferBar implements Download.Progress, AutoCloseable {
    private static final int WIDTH = 30;
    /** Columns that the numbers take in addition to the bar. */
    private static final int NUMBERS = 31;

    private final PrintStream out;
    /** {@code null} if there is no terminal. */
    private final StatusLine status;
    private String shown = "";

    TransferBar(PrintStream out) {
        this(out, Terminal.isStandardError(), Terminal::columns);
    }

    TransferBar(PrintStream out, boolean interactive, IntSupplier columns) {
        this.out = out;
        status = interactive ? new StatusLine(out, columns) : null;
    }

    @Override
    public void advance(long receivedBytes, long totalBytes) {
        int width = status != null ? Math.clamp(status.room() - NUMBERS, 1, WIDTH) : WIDTH;
        int filled = (int) (width * receivedBytes / Math.max(totalBytes, 1));
        String line = String.format(Locale.ROOT, "  [%s%s] %3d %%  %.1f of %.1f MB", "=".repeat(filled),
            " ".repeat(width - filled), 100 * receivedBytes / Math.max(totalBytes, 1), receivedBytes / 1e6,
            totalBytes / 1e6);
        if (status != null && !line.equals(shown)) {
            status.draw(line);
        }
        shown = line;
    }

    /** Ends the line, if there is one. */
    @Override
    public void close() {
        if (status != null) {
            status.end();
        } else if (!shown.isEmpty()) {
            out.println(shown);
        }
    }
}
