package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/**
 * Writes the rows of a server as of a cut, while training changes them. Two threads deliver rows: one scans the tables,
 * the other delivers a row that the scan has not reached before it changes the row ({@link EmbeddingRows}). Memory is
 * bounded, because delivered rows go straight to the file.
 */
public final class RowSaver extends RowTask {
    private final Path file;
    private final long step;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private Plan plan;
    private int server;
    /** Set by {@link #begin}. */
    @SuppressWarnings("NullAway.Init")
    private EmbeddingRows[] tables;
    /** {@code null} before the first row. */
    private @Nullable CheckedFile out;
    private boolean closed;
    /** Why the rows cannot be saved, or {@code null}. */
    private @Nullable IOException failure;

    /**
     * Creates a task that has not started.
     *
     * @param file to be written
     * @param step written to the file's header
     */
    public RowSaver(long id, Path file, long step) {
        super(id, file);
        this.file = file;
        this.step = step;
    }

    /**
     * Takes the cut. Called by the thread that changes rows.
     *
     * @param sequence number of the journal's last record, which is on the disk
     * @param threadName of the thread that scans the tables, or {@code null} if the calling thread does
     */
    public void begin(Plan of, int ofServer, EmbeddingRows[] all, long sequence,
            @Nullable String threadName) {
        plan = of;
        server = ofServer;
        tables = all;
        for (int t = 0; t < tables.length; t++) {
            tables[t].cut(sequence, writer(t));
        }
        begin(threadName);
    }

    private EmbeddingRows.Cut writer(int table) {
        return (key, row) -> write(table, key, row);
    }

    private synchronized void write(int table, long key, byte[] row) {
        if (closed || failure != null) {
            return;
        }
        try {
            RowFile.putRow(out(), table, key, row, tables[table].rowBytes());
            advance();
        } catch (IOException e) {
            // Not thrown here, where it could end the apply stage; commit() throws it on the task's thread.
            failure = e;
        }
    }

    /** Returns the file, which it begins at the first call. */
    private CheckedFile out() throws IOException {
        if (out != null) {
            return out;
        }
        CheckedFile opened = CheckedFile.write(file);
        out = opened;
        RowFile.putHeader(opened, plan, server, step);
        return opened;
    }

    @Override
    RowState work() throws IOException {
        try {
            for (int t = 0; t < tables.length; t++) {
                EmbeddingRows.Cut writer = writer(t);
                while (!isOver() && tables[t].scan(writer)) {
                    // until all segments are delivered
                }
            }
            return commit();
        } finally {
            for (EmbeddingRows table : tables) {
                table.endCut();
            }
            close();
        }
    }

    private synchronized boolean isOver() {
        return isCancelled() || failure != null;
    }

    private synchronized RowState commit() throws IOException {
        closed = true;
        if (failure != null) {
            throw failure;
        }
        if (isCancelled()) {
            throw new RowException(file, "was not completed, because the task was cancelled");
        }
        CheckedFile written = out();
        RowFile.putEnd(written, rows());
        String checksum = RowFile.checksum(written.commit());
        return new RowState.Saved(file.getFileName().toString(), Files.size(file), checksum);
    }

    private synchronized void close() throws IOException {
        closed = true;
        if (out != null) {
            out.close();
        }
    }
}
