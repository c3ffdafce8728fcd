package dev.starling.cuda.kernels;

/** Whether kernels have computed an operation. */
public sealed interface Answer {
    /** The operation was computed, or queued. */
    Answer HANDLED = new Handled();
    /** Starling's kernels cannot index the operands. */
    Answer TOO_LARGE = new Declined("the kernels index at most 2^30 lines, of at most 2^30 elements");

    /** The results have been queued. */
    record Handled() implements Answer { }

    /**
     * Other kernels have to compute the operation; what the results contain is undefined.
     *
     * @param reason why, as a sentence without a full stop
     */
    record Declined(String reason) implements Answer { }

    /** Returns whether the operation was computed. */
    default boolean isHandled() {
        return this == HANDLED;
    }
}
