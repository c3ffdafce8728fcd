package dev.starling.nn.train;

/** A {@link DistributionStrategy} that has something to do after the last step. */
public interface Concludes {
    /** Ends with the last step. */
    Concludes NONE = new Concludes() {
    };

    /** Returns a strategy as what implements this interface; {@link #NONE} if it does not. */
    static Concludes of(DistributionStrategy strategy) {
        return strategy instanceof Concludes concludes ? concludes : NONE;
    }

    /**
     * Called after the last step of the last epoch, before the final evaluation and checkpoint. A strategy whose
     * processes do not wait for each other may wait here, with a deadline, so that the model includes the updates of
     * all processes.
     */
    default void conclude() {
    }

    /**
     * Called when the run completes, but not if it fails. Completes everything that other processes still need from
     * this process, so that it can leave. Collective if synchronous.
     */
    default void finish() {
    }
}
