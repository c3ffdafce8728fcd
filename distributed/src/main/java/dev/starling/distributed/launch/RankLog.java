package dev.starling.distributed.launch;

import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.lang.System.Logger.Level;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.jspecify.annotations.Nullable;

/**
 * The file with the output of a rank, standard output and errors together, by lines. Output of a restarted process is
 * appended. If the file cannot be written, the launch continues without it. Safe for use by several threads.
 */
final class RankLog implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Path file;
    /** {@code null} after the file could not be written. */
    private @Nullable OutputStream out;

    private RankLog(Path file, OutputStream out) {
        this.file = file;
        this.out = out;
    }

    /** Opens the file of a rank in a directory, which is created if it does not exist. */
    static RankLog open(Path directory, int rank) throws IOException {
        Path file = directory.resolve("rank-" + rank + ".log");
        try {
            Files.createDirectories(directory);
            return new RankLog(file, new FileOutputStream(file.toFile(), true));
        } catch (IOException e) {
            throw new IOException("cannot write the log " + file + ": " + e + "; choose another directory for logs", e);
        }
    }

    /** Writes a line about the start of a process, which separates its output from that of earlier ones. */
    void begin(int rank, int start, long pid) {
        byte[] line = ("==== rank " + rank + ", process " + pid + (start > 1 ? ", restart " + (start - 1) : "") + ", "
                + Instant.now().truncatedTo(ChronoUnit.SECONDS) + " ====").getBytes(StandardCharsets.UTF_8);
        writeLine(line, 0, line.length);
    }

    /** Writes a line. */
    synchronized void writeLine(byte[] bytes, int offset, int length) {
        if (out == null) {
            return;
        }
        byte[] line = new byte[length + 1];
        System.arraycopy(bytes, offset, line, 0, length);
        line[length] = '\n';
        try {
            out.write(line);
        } catch (IOException e) {
            LOG.log(Level.WARNING, "{0} gets no more output: {1}", file, e.getMessage());
            close();
        }
    }

    @Override
    public synchronized void close() {
        try (OutputStream closed = out) {
            out = null;
        } catch (IOException e) {
            LOG.log(Level.WARNING, "{0} may lack its last lines: {1}", file, e.getMessage());
        }
    }
}
