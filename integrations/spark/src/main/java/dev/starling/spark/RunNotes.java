package dev.starling.spark;

import java.io.Serializable;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * The progress of a run: each worker's last step, rank 0's epochs, in the format of {@link
 * dev.starling.nn.train.RemoteRun}, and the steps at which training started or resumed. Immutable.
 *
 * @param steps by rank
 * @param epochs by number
 * @param starts by {@link Start#number}
 */
record RunNotes(Map<Integer, Step> steps, Map<Integer, double[]> epochs, Map<Long, Start> starts)
        implements Serializable {
    static final RunNotes NONE = new RunNotes(Map.of(), Map.of(), Map.of());
    private static final long serialVersionUID = 1L;
    private static final int EPOCH = 0;
    private static final int STEP = 4;
    private static final int LOSS = 6;

    /**
     * A step.
     *
     * @param attempt of the job that took the step, from 1
     */
    record Step(int attempt, double[] numbers) implements Serializable {
        private static final long serialVersionUID = 1L;

        long step() {
            return (long) numbers[STEP];
        }

        private boolean isAfter(Step other) {
            return other == null || attempt > other.attempt || attempt == other.attempt && step() > other.step();
        }
    }

    /**
     * The first step that a set of workers takes together.
     *
     * @param attempt of the job, from 1
     * @param change number of the set of workers in the attempt, from 1
     * @param atMs when the step ended, in milliseconds since 1970
     * @param pausedNs time since the previous step, or -1 if this process has taken none
     */
    record Start(int attempt, long change, long step, int workers, long atMs, long pausedNs) implements Serializable {
        private static final long serialVersionUID = 1L;

        long number() {
            return (long) attempt << Integer.SIZE | change;
        }
    }

    RunNotes withStep(int rank, Step step) {
        return new RunNotes(with(steps, rank, step), epochs, starts);
    }

    RunNotes withEpoch(double[] numbers) {
        return new RunNotes(steps, with(epochs, (int) numbers[EPOCH], numbers), starts);
    }

    RunNotes withStart(Start start) {
        return new RunNotes(steps, epochs, with(starts, start.number(), start));
    }

    RunNotes and(RunNotes other) {
        RunNotes all = this;
        for (Map.Entry<Integer, Step> step : other.steps.entrySet()) {
            if (step.getValue().isAfter(steps.get(step.getKey()))) {
                all = all.withStep(step.getKey(), step.getValue());
            }
        }
        for (double[] epoch : other.epochs.values()) {
            all = all.withEpoch(epoch);
        }
        for (Start start : other.starts.values()) {
            all = all.withStart(start);
        }
        return all;
    }

    private static <K, V> Map<K, V> with(Map<K, V> map, K key, V value) {
        Map<K, V> more = new TreeMap<>(map);
        more.put(key, value);
        return more;
    }

    /** Returns the text that Spark's web pages show for the accumulator. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        steps.forEach((rank, step) -> text.append(text.isEmpty() ? "" : "; ").append(String.format(Locale.ROOT,
                "rank %d: epoch %.0f, step %d, loss %.4f", rank, step.numbers()[EPOCH] + 1, step.step(),
                step.numbers()[LOSS])));
        return text.toString();
    }
}
