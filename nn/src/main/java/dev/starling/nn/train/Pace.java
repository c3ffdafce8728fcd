package dev.starling.nn.train;

/**
 * Estimates the time per example from past steps.
 *
 * <p>The estimate is a weighted mean that covers about the last third of the elapsed time, and at most one minute. It
 * therefore forgets the first steps, in which code is compiled and caches are filled, and follows a machine whose load
 * changes.
 */
final class Pace {
    private static final double MEMORY_S = 60;
    private static final int MIN_STEPS = 3;
    private static final double MIN_SECONDS = 2;
    private static final double AGREEMENT = 0.2;

    private final Mean mean = new Mean(3);
    /** Mean over about the last tenth of the time. If it differs from {@link #mean}, the speed is still changing. */
    private final Mean latest = new Mean(10);
    private double elapsed;
    private long steps;
    private boolean settled;

    /** Adds a step. */
    void add(double seconds, long examples) {
        elapsed += seconds;
        steps++;
        mean.add(seconds, examples, elapsed);
        latest.add(seconds, examples, elapsed);
        settled |= steps >= MIN_STEPS && elapsed >= MIN_SECONDS
                && Math.abs(latest.get() - mean.get()) <= AGREEMENT * mean.get();
    }

    /** Returns the seconds per example, or NaN while steps are still becoming faster. */
    double secondsPerExample() {
        return settled ? mean.get() : Double.NaN;
    }

    /**
     * A mean in which a value that is {@code n} times as old has a weight that is smaller by {@code n} to the
     * {@code power}.
     */
    private static final class Mean {
        private final double power;
        private double seconds;
        private double examples;

        Mean(double power) {
            this.power = power;
        }

        void add(double took, long count, double elapsed) {
            double keep = Math.exp(-took / Math.min(elapsed / power, MEMORY_S));
            seconds = keep * seconds + took;
            examples = keep * examples + count;
        }

        double get() {
            return seconds / examples;
        }
    }
}
