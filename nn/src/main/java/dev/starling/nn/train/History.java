package dev.starling.nn.train;

import java.util.ArrayList;
import java.util.List;

/** The epochs of a run; those before it was resumed are not among them. */
public final class History {
    private final List<EpochReport> epochs = new ArrayList<>();

    History() {
    }

    void add(EpochReport report) {
        epochs.add(report);
    }

    /** Returns the reports, oldest first. */
    public List<EpochReport> epochs() {
        return List.copyOf(epochs);
    }

    /** Returns the last report. */
    public EpochReport last() {
        if (epochs.isEmpty()) {
            throw new IllegalStateException("the run ended before its first epoch did");
        }
        return epochs.getLast();
    }
}
