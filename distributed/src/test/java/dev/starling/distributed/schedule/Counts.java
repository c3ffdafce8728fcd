package dev.starling.distributed.schedule;

import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Steps of workers as they begin, and as servers acknowledge them. Where each gradient is 1, the weights that a worker
 * gets tell how many gradients are in them: all that were acknowledged when it asked, and none twice.
 */
final class Counts {
    /** Far less than one gradient, far more than rounding. */
    private static final double ROUNDING = 0.01;

    private final boolean isFair;
    private final boolean isServed;
    private final boolean[] isUnharmed;
    private final boolean[] isFinished;
    private final int[] begun;
    private final int[] acknowledged;
    /** How many were acknowledged in all when a worker's present step began. */
    private final int[] least;
    /** The weights before all steps; {@code null} before they are known. */
    private float[] first;
    private int furthestAhead;
    private String wrong = "";

    Counts(Forecast forecast, List<String> workers) {
        int n = workers.size();
        isFair = forecast.isFair();
        isServed = forecast.plan().ranks().stream().allMatch(r -> r.equals(Forecast.COORDINATOR) || workers.contains(r)
                || forecast.isUnharmed(r));
        isUnharmed = new boolean[n];
        for (int w = 0; w < n; w++) {
            isUnharmed[w] = forecast.isUnharmed(workers.get(w));
        }
        isFinished = new boolean[n];
        begun = new int[n];
        acknowledged = new int[n];
        least = new int[n];
    }

    /** Worker 0's weights are those that all begin with. */
    void first(int worker, float[] weights) {
        first = worker == 0 && first == null ? weights : first;
    }

    void begun(int worker) {
        begun[worker]++;
        least[worker] = Arrays.stream(acknowledged).sum();
    }

    /** Takes what a worker has after a step; {@code null} if weights do not tell how many steps there were. */
    void acknowledged(int worker, float[] weights, boolean isSynchronous) {
        acknowledged[worker]++;
        for (int v = 0; v < begun.length; v++) {
            // A server that is let in again waits for none of its workers until they are back.
            if (isServed && isUnharmed[v] && !isFinished[v] && isUnharmed[worker]) {
                furthestAhead = Math.max(furthestAhead, acknowledged[worker] - begun[v]);
            }
        }
        for (int i = 0; weights != null && i < weights.length; i++) {
            double count = (first[i] - weights[i]) / Schedule.RATE;
            // Of the step in which somebody is lost, the sum may be without that one's part.
            double low = isSynchronous ? acknowledged[worker] - (isFair ? 0 : 1) : least[worker] + 1;
            double high = isSynchronous ? acknowledged[worker] : IntStream.of(begun).sum();
            boolean isWhole = isSynchronous || Math.abs(count - Math.rint(count)) <= ROUNDING;
            if (!isWhole || count < low - ROUNDING || count > high + ROUNDING) {
                wrong += "worker " + worker + " after its step " + acknowledged[worker] + " sees " + count
                        + " gradients in weight " + i + ", of " + low + " to " + high + "\n";
            }
        }
    }

    void finished(int worker) {
        isFinished[worker] = true;
    }

    /** Returns the most steps that a worker has been ahead of one that nobody can have given up. */
    int furthestAhead() {
        return furthestAhead;
    }

    /** Returns what gradients were lost, or counted twice; nothing if all is well. */
    String wrong() {
        return wrong;
    }
}
