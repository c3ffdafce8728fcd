package dev.starling.nn.train;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Collectors;

/** The epochs of a run. It does not contain epochs before the checkpoint from which the run resumed. */
public final class History {
    private final List<EpochReport> epochs = new ArrayList<>();

    History() {
    }

    /** Adds a report. It replaces a previous report on the same epoch, which exists if the epoch had to be repeated. */
    void add(EpochReport report) {
        if (!epochs.isEmpty() && epochs.getLast().epoch() == report.epoch()) {
            epochs.removeLast();
        }
        epochs.add(report);
    }

    /** Returns the reports, one in each line. */
    @Override
    public String toString() {
        return epochs.isEmpty() ? "no epoch was completed"
                : epochs.stream().map(EpochReport::toString).collect(Collectors.joining("\n"));
    }

    /** Returns the reports, oldest first. */
    public List<EpochReport> epochs() {
        return List.copyOf(epochs);
    }

    /** Returns the last report. */
    public EpochReport last() {
        if (epochs.isEmpty()) {
            throw TensorException.argument("history", "the run ended before its first epoch was complete",
                    "train for at least one epoch");
        }
        return epochs.getLast();
    }
}
