package dev.starling.cuda.kernels;

/** Whether kernels have computed an operation. */
public sealed interface Answer {
    /** The operation was computed, or queued. */
    Answer HANDLED = new Handled();
    /** Starling's kernels cannot index the operands. */
    Answer TOO_LARGE = new Declined("the kernels index at most 2^30 lines, of at most 2^30 elements");

    /** The results have been queued. */
    record Handled() implements Answer {
        @Override
        public boolean isHandled() {
            return true;
        }
    }

    /**
     * Other kernels have to compute the operation; what the results contain is undefined.
     *
     * @param reason why, as a sentence without a full stop
     */
    record Declined(String reason) implements Answer {
        @Override
        public boolean isHandled() {
            return false;
        }
    }

    /**
     * Returns whether the operation was computed. Abstract, because the JVM initialises an interface that has default
     * methods before a class that implements it: two threads, of which one begins with a constant of this interface and
     * the other with a class, would then wait for each other.
     */
    boolean isHandled();
}
