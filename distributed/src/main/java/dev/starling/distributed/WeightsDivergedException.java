package dev.starling.distributed;

/** Ranks that take the same steps have different weights: their results mean nothing any more. */
public final class WeightsDivergedException extends DistributedException {
    private static final long serialVersionUID = 1L;

    private final long step;
    private final String parameter;

    /**
     * Creates an exception.
     *
     * @param rank the first rank whose weights differ from those of most ranks
     * @param step number of steps after which the difference was found
     * @param parameter path of the first parameter that differs
     */
    public WeightsDivergedException(int rank, long step, String parameter, String message) {
        super(rank, message, null);
        this.step = step;
        this.parameter = parameter;
    }

    /** Returns the number of steps after which the difference was found. */
    public long step() {
        return step;
    }

    /** Returns the path of the first parameter that differs. */
    public String parameter() {
        return parameter;
    }
}
