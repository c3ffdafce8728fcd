package dev.starling.nn.train;

/**
 * A {@link DistributionStrategy} whose ranks agree on the end of the run and add up what they measure. A synchronous
 * strategy of more than one rank must implement it. Where a strategy has an asynchronous form too, {@link #stops}
 * returns its argument in that form, and {@link #sum} is not called.
 */
public interface Collective {
    /** Decides alone, and its sums are those over all ranks. */
    Collective ALONE = new Collective() {
        @Override
        public boolean stops(boolean requested) {
            return requested;
        }

        @Override
        public void sum(double[] values) {
        }
    };

    /** Returns a strategy as what implements this interface; {@link #ALONE} if it does not. */
    static Collective of(DistributionStrategy strategy) {
        return strategy instanceof Collective collective ? collective : ALONE;
    }

    /**
     * Called at the end of each step to agree on ending the run. Collective; a request may take effect one step later,
     * at the same step on all ranks.
     *
     * @param requested whether this process requests the end
     * @return whether the run ends here
     */
    boolean stops(boolean requested);

    /**
     * Adds up numbers over all ranks, in place. Called only while the share is synchronous. Collective.
     *
     * @param values the same number of values on every rank
     */
    void sum(double[] values);
}
