package dev.starling.distributed.ps.store;

import dev.starling.distributed.ps.wire.Plan;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Writes the rows of a server as of a cut, while training changes them. Two threads deliver rows: one scans the tables,
 * the other delivers a row that the scan has not reached before it changes the row ({@link EmbeddingRows}). Memory is
 * bounded, because delivered rows go straight to the file.
 */
public final class RowSaver extends RowTask {
    private final Path file;
    private final long step;
    private Plan plan;
    private int server;
    private EmbeddingRows[] tables;
    private CheckedFile out;
    private boolean closed;
    private IOException failure;

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
    public void begin(Plan of, int ofServer, EmbeddingRows[] all, long sequence, String threadName) {
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
            if (out == null) {
                open();
            }
            RowFile.putRow(out, table, key, row, tables[table].rowBytes());
            advance();
        } catch (IOException e) {
            // Not thrown here, where it could end the apply stage; commit() throws it on the task's thread.
            failure = e;
        }
    }

    private void open() throws IOException {
        out = CheckedFile.write(file);
        RowFile.putHeader(out, plan, server, step);
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
        if (out == null) {
            open();
        }
        RowFile.putEnd(out, rows());
        String checksum = RowFile.checksum(out.commit());
        return new RowState.Saved(file.getFileName().toString(), Files.size(file), checksum);
    }

    private synchronized void close() throws IOException {
        closed = true;
        if (out != null) {
            out.close();
        }
    }
}
