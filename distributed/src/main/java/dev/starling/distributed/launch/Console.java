package dev.starling.distributed.launch;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/** Merges the output of all processes into one stream of whole lines, each prefixed with its rank. */
final class Console {
    private static final int[] COLOURS = {36, 33, 32, 35, 34, 31};
    private static final byte[] NONE = { };

    private final OutputStream stream;
    private final boolean coloured;
    private final int rankWidth;
    /** Why the output has ended, or {@code null}. */
    private @Nullable IOException failure;

    Console(OutputStream stream, boolean coloured, int world) {
        this.stream = stream;
        this.coloured = coloured;
        rankWidth = Integer.toString(world - 1).length();
    }

    /** Returns whether a file descriptor of this process is a terminal that shows colours. */
    static boolean isTerminal(int descriptor) {
        String term = System.getenv("TERM");
        if (term == null || term.equals("dumb") || System.getenv("NO_COLOR") != null) {
            return false;
        }
        try {
            String target = Files.readSymbolicLink(Path.of("/proc/self/fd/" + descriptor)).toString();
            return target.startsWith("/dev/pts/") || target.startsWith("/dev/tty");
        } catch (IOException | UnsupportedOperationException noProc) {
            return System.console() != null && System.console().isTerminal();
        }
    }

    /** Returns the prefix of each line of a rank. */
    byte[] prefix(int rank) {
        String label = "[" + " ".repeat(rankWidth - Integer.toString(rank).length()) + rank + "]";
        String shown = coloured ? "\u001b[" + COLOURS[rank % COLOURS.length] + "m" + label + "\u001b[0m " : label + " ";
        return shown.getBytes(StandardCharsets.US_ASCII);
    }

    /**
     * Writes a prefix and bytes without interleaving them with other output. Returns whether the stream is still open:
     * afterwards nothing more is written.
     */
    synchronized boolean write(byte[] prefix, byte[] bytes, int offset, int length, boolean endLine) {
        if (failure == null) {
            try {
                stream.write(prefix);
                stream.write(bytes, offset, length);
                if (endLine) {
                    stream.write('\n');
                }
            } catch (IOException e) {
                failure = e;
            }
        }
        return failure == null;
    }

    /** Writes bytes as they are. */
    boolean write(byte[] bytes, int length) {
        return write(NONE, bytes, 0, length, false) && flush();
    }

    /** Writes a line of the launcher's own. */
    void printLine(String line) {
        byte[] bytes = ("starling: " + line + "\n").getBytes(StandardCharsets.UTF_8);
        write(bytes, bytes.length);
    }

    synchronized boolean flush() {
        if (failure == null) {
            try {
                stream.flush();
            } catch (IOException e) {
                failure = e;
            }
        }
        return failure == null;
    }
}
