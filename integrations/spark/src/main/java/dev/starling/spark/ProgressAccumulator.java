package dev.starling.spark;

import org.apache.spark.util.AccumulatorV2;

/** Sends {@link RunNotes} from tasks to the driver, with the executors' heartbeats and at the end of tasks. */
final class ProgressAccumulator extends AccumulatorV2<RunNotes, RunNotes> {
    private static final long serialVersionUID = 1L;

    /** Replaced, never modified: the heartbeat's thread reads it while the task runs. */
    private volatile RunNotes notes = RunNotes.NONE;

    @Override
    public boolean isZero() {
        return notes.equals(RunNotes.NONE);
    }

    @Override
    public ProgressAccumulator copy() {
        ProgressAccumulator copy = new ProgressAccumulator();
        copy.notes = notes;
        return copy;
    }

    @Override
    public void reset() {
        notes = RunNotes.NONE;
    }

    @Override
    public void add(RunNotes more) {
        notes = notes.and(more);
    }

    @Override
    public void merge(AccumulatorV2<RunNotes, RunNotes> other) {
        add(other.value());
    }

    @Override
    public RunNotes value() {
        return notes;
    }
}
