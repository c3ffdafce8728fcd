package dev.starling.distributed.state;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.nn.train.TrainingState;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;

/**
 * A summary of a rank's training state.
 *
 * @param fresh whether the rank has not taken part in the run yet
 * @param step number of steps that it has taken
 * @param epoch number of the epoch
 * @param batch place in the epoch
 * @param notes of the state
 * @param checks checksums of the paths and types of its tensors; one covers several tensors if there are many
 */
record StateSummary(boolean fresh, long step, int epoch, int batch, Map<String, String> notes, List<Integer> checks) {
    static final RecordCodec<StateSummary> CODEC = RecordCodec.of(StateSummary.class);
    private static final int MAX_CHECKS = 2048;

    static StateSummary of(TrainingState state, boolean fresh) {
        List<String> tensors = describe(state);
        List<Integer> checks = new ArrayList<>();
        for (int i = 0; i < Math.min(MAX_CHECKS, tensors.size()); i++) {
            CRC32 crc = new CRC32();
            for (int k = i; k < tensors.size(); k += MAX_CHECKS) {
                crc.update(tensors.get(k).getBytes(StandardCharsets.UTF_8));
            }
            checks.add((int) crc.getValue());
        }
        return new StateSummary(fresh, state.step(), state.epoch(), state.batch(), state.notes(), checks);
    }

    private static List<String> describe(TrainingState state) {
        List<String> tensors = new ArrayList<>();
        state.tensors().forEach((path, p) -> tensors.add(path + " " + p.value().dtype() + p.shape()));
        return tensors;
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

    boolean isAt(StateSummary other) {
        return step == other.step && epoch == other.epoch && batch == other.batch;
    }

    /** Checks that two ranks train the same model. */
    void requireSameModel(StateSummary first, int rank, TrainingState own) {
        for (int i = 0; i < Math.max(checks.size(), first.checks.size()); i++) {
            if (i >= checks.size() || i >= first.checks.size() || !checks.get(i).equals(first.checks.get(i))) {
                List<String> tensors = describe(own);
                throw new DistributedException("rank " + rank + " trains another model than rank 0: their tensors "
                        + "number " + i + " differ, here it is " + (i < tensors.size() ? tensors.get(i) : "absent")
                        + "; build the same model and optimiser on all ranks");
            }
        }
    }
}
