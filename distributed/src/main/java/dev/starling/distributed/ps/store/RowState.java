package dev.starling.distributed.ps.store;

import dev.starling.distributed.encoding.RecordCodec;

/** The state of a server's part of a job with rows, as the server reports it to worker 0. */
public sealed interface RowState {
    /** The server does not know the job. */
    record Unknown() implements RowState { }

    /** The job has not started. */
    record Waiting() implements RowState { }

    /** The cut is taken, or reading has started; {@code rows} were written or read. */
    record Running(long rows) implements RowState { }

    /** All rows are on the disk, in a file. */
    record Saved(String file, long bytes, String checksum) implements RowState { }

    /** The server has its rows; the checkpoint has no rows of the tables {@code missing}. */
    record Restored(long rows, String missing) implements RowState { }

    /** The job has failed because of a problem with a file. */
    record Failed(String file, String problem) implements RowState { }

    /** A report of the state of the job with a number. */
    record Report(long id, RowState state) {
        public static final RecordCodec<Report> CODEC = RecordCodec.of(Report.class);
    }

    /** Returns whether the cut is taken, or reading has started. */
    default boolean hasBegun() {
        return !(this instanceof Unknown || this instanceof Waiting);
    }

    /** Returns whether the state is final. */
    default boolean isOver() {
        return hasBegun() && !(this instanceof Running);
    }
}
