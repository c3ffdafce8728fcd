package dev.starling.samples.data;

import dev.starling.nn.data.Download;
import java.io.PrintStream;
import java.util.Locale;

/** Shows on one line of a terminal how far a download has come; where there is no terminal, only its end. */
final class TransferBar implements Download.Progress, AutoCloseable {
    private static final int WIDTH = 30;

    private final PrintStream out;
    private final boolean live;
    private String shown = "";

    TransferBar(PrintStream out) {
        this(out, System.console() != null && System.console().isTerminal());
    }

    TransferBar(PrintStream out, boolean live) {
        this.out = out;
        this.live = live;
    }

    @Override
    public void advance(long receivedBytes, long totalBytes) {
        int filled = (int) (WIDTH * receivedBytes / Math.max(totalBytes, 1));
        String line = String.format(Locale.ROOT, "  [%s%s] %3d %%  %.1f of %.1f MB", "=".repeat(filled),
            " ".repeat(WIDTH - filled), 100 * receivedBytes / Math.max(totalBytes, 1), receivedBytes / 1e6,
            totalBytes / 1e6);
        if (live && !line.equals(shown)) {
            out.print("\r" + line);
            out.flush();
        }
        shown = line;
    }

    /** Ends the line, if there is one. */
    @Override
    public void close() {
        if (!shown.isEmpty()) {
            out.println(live ? "" : shown);
        }
    }
}
