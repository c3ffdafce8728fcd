package dev.starling.nn.train;

/**
 * How long an example takes, as far as one can tell what comes from what has been.
 *
 * <p>A mean over the last third of the time so far, about, and over a minute at most. So it forgets the first steps,
 * in which code is compiled and caches are filled, however long they take, and follows a machine whose load changes.
 */
final class Pace {
    private static final double MEMORY_S = 60;
    private static final int MIN_STEPS = 3;
    private static final double MIN_SECONDS = 2;
    private static final double AGREEMENT = 0.2;

    private final Mean mean = new Mean(3);
    /** Of the last tenth: where it differs from the mean, speed still changes. */
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

    /** Returns how many seconds an example takes, NaN while steps still become faster. */
    double secondsPerExample() {
        return settled ? mean.get() : Double.NaN;
    }

    /**
     * Weighs what is older by an elapsed time {@code n} times as long with a factor of {@code n} to the {@code
     * power}.
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
