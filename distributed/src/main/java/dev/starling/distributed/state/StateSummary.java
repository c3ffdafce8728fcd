package dev.starling.distributed.state;

import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.TrainingState;
import java.util.Map;

/**
 * A summary of a rank's training state.
 *
 * @param fresh whether the rank has not taken part in the run yet
 * @param origin identifies the membership epoch in which the rank took its last steps
 * @param step number of steps that it has taken
 * @param epoch number of the epoch
 * @param batch place in the epoch
 * @param notes of the state
 */
record StateSummary(boolean fresh, long origin, long step, int epoch, int batch, Map<String, String> notes) {
    static final RecordCodec<StateSummary> CODEC = RecordCodec.of(StateSummary.class);

    static StateSummary of(TrainingState state, boolean fresh, long origin) {
        return new StateSummary(fresh, origin, state.step(), state.epoch(), state.batch(), state.notes());
    }

    /** Returns whether this state should be preferred; of equal ones, that of the lower rank is. */
    boolean isAheadOf(StateSummary other) {
        if (fresh || other.fresh) {
            return !fresh;
        }
        // Of two ranks after the same step, prefer the one that has yet to measure the epoch that ended with it: all
        // ranks repeat that.
        return step != other.step ? step > other.step : epoch < other.epoch;
    }

    /**
     * Returns whether the states are equal. After the same step they still differ by rounding if the steps were taken
     * in different membership epochs.
     */
    boolean isEqualTo(StateSummary other) {
        return !fresh && !other.fresh && origin == other.origin && step == other.step && epoch == other.epoch
                && batch == other.batch;
    }
}
