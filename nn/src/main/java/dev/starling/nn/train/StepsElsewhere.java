package dev.starling.nn.train;

import dev.starling.nn.checkpoint.Parts;
import java.nio.file.Path;

/** A {@link DistributionStrategy} under which optimisers in other processes apply the gradients as they arrive. */
public interface StepsElsewhere {
    /** The local optimiser takes all steps. */
    StepsElsewhere NONE = () -> false;

    /** Returns a strategy as what implements this interface; {@link #NONE} if it does not. */
    static StepsElsewhere of(DistributionStrategy strategy) {
        return strategy instanceof StepsElsewhere elsewhere ? elsewhere : NONE;
    }

    /**
     * Returns whether steps are taken in other processes. Then a step whose gradients are not finite cannot be skipped,
     * as training in f16 sometimes requires. A strategy around another one answers for that one.
     */
    boolean stepsElsewhere();

    /**
     * Called on rank 0 after {@link DistributionStrategy#settle} when a checkpoint is saved. Starts to save those parts
     * of the checkpoint that are too large for this process. The saved state is that at the time of the call; it may
     * change after this method returns.
     *
     * @param directory directory of the checkpoint; {@link TrainingState#source} finds the parts there
     * @return the parts that must be complete before the checkpoint counts; none by default
     */
    default Parts saveParts(Path directory) {
        return Parts.NONE;
    }
}
