package dev.starling.nn.train;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;

/** The epochs of a run; those before it was resumed are not among them. */
public final class History {
    private final List<EpochReport> epochs = new ArrayList<>();

    History() {
    }

    /** Adds a report; it takes the place of one on the same epoch, which had to be measured again. */
    void add(EpochReport report) {
        if (!epochs.isEmpty() && epochs.getLast().epoch() == report.epoch()) {
            epochs.removeLast();
        }
        epochs.add(report);
    }

    /** Returns the reports, oldest first. */
    public List<EpochReport> epochs() {
        return List.copyOf(epochs);
    }

    /** Returns the last report. */
    public EpochReport last() {
        if (epochs.isEmpty()) {
            throw TensorException.argument("history", "the run ended before its first epoch did", "train for longer");
        }
        return epochs.getLast();
    }
}
