package dev.starling.spark;

import java.io.Serializable;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;

/**
 * What is known of a run: each worker's last step, and rank 0's epochs, as {@link dev.starling.nn.train.RemoteRun}
 * writes them. Immutable.
 *
 * @param steps by rank
 * @param epochs by number
 */
record RunNotes(Map<Integer, double[]> steps, Map<Integer, double[]> epochs) implements Serializable {
    static final RunNotes NONE = new RunNotes(Map.of(), Map.of());
    private static final long serialVersionUID = 1L;
    private static final int EPOCH = 0;
    private static final int STEP = 4;
    private static final int LOSS = 6;

    RunNotes withStep(int rank, double[] numbers) {
        return new RunNotes(with(steps, rank, numbers), epochs);
    }

    RunNotes withEpoch(double[] numbers) {
        return new RunNotes(steps, with(epochs, (int) numbers[EPOCH], numbers));
    }

    RunNotes and(RunNotes other) {
        RunNotes all = this;
        for (Map.Entry<Integer, double[]> step : other.steps.entrySet()) {
            double[] own = steps.get(step.getKey());
            if (own == null || own[STEP] < step.getValue()[STEP]) {
                all = all.withStep(step.getKey(), step.getValue());
            }
        }
        for (double[] epoch : other.epochs.values()) {
            all = all.withEpoch(epoch);
        }
        return all;
    }

    private static Map<Integer, double[]> with(Map<Integer, double[]> map, int key, double[] numbers) {
        Map<Integer, double[]> more = new TreeMap<>(map);
        more.put(key, numbers);
        return more;
    }

    /** What Spark's pages show of the accumulator. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        steps.forEach((rank, n) -> text.append(text.isEmpty() ? "" : "; ").append(String.format(Locale.ROOT,
                "rank %d: epoch %.0f, step %.0f, loss %.4f", rank, n[EPOCH] + 1, n[STEP], n[LOSS])));
        return text.toString();
    }
}
