package dev.starling.distributed.conformance;

import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * Counts the steps of workers as they begin and as servers acknowledge them. If each gradient is 1, the weights show
 * how many gradients they contain: all that were acknowledged before the worker's step began, and none twice.
 */
final class StepCounts {
    /** Far less than one gradient, far more than rounding. */
    private static final double ROUNDING = 0.01;

    private final boolean fair;
    private final boolean served;
    private final boolean[] unharmed;
    private final boolean[] finished;
    private final int[] begun;
    private final int[] acknowledged;
    /** Number of steps of all workers that were acknowledged when a worker's present step began. */
    private final int[] minAcknowledged;
    /** The initial weights; {@code null} before they are known. */
    private float @Nullable [] first;
    private int furthestAhead;
    private String wrong = "";

    StepCounts(ExpectedEffects effects, List<String> workers) {
        int n = workers.size();
        fair = effects.isFair();
        served = effects.plan().ranks().stream().allMatch(r -> r.equals(ExpectedEffects.COORDINATOR)
                || workers.contains(r)
                || effects.isUnharmed(r));
        unharmed = new boolean[n];
        for (int w = 0; w < n; w++) {
            unharmed[w] = effects.isUnharmed(workers.get(w));
        }
        finished = new boolean[n];
        begun = new int[n];
        acknowledged = new int[n];
        minAcknowledged = new int[n];
    }

    /** Stores worker 0's weights, with which all workers begin. */
    void first(int worker, float[] weights) {
        first = worker == 0 && first == null ? weights : first;
    }

    void begun(int worker) {
        begun[worker]++;
        minAcknowledged[worker] = Arrays.stream(acknowledged).sum();
    }

    /** Checks a worker's weights after a step; {@code null} if weights do not show the number of steps. */
    void acknowledged(int worker, float @Nullable [] weights, boolean synchronous) {
        acknowledged[worker]++;
        for (int v = 0; v < begun.length; v++) {
            // A server that has rejoined the group waits for no worker before the worker has rejoined, too.
            if (served && unharmed[v] && !finished[v] && unharmed[worker]) {
                furthestAhead = Math.max(furthestAhead, acknowledged[worker] - begun[v]);
            }
        }
        for (int i = 0; weights != null && i < weights.length; i++) {
            double count = (Objects.requireNonNull(first)[i] - weights[i]) / Schedule.RATE;
            // In the step in which a worker is lost, the sum may lack its gradient.
            double low = synchronous ? acknowledged[worker] - (fair ? 0 : 1) : minAcknowledged[worker] + 1;
            double high = synchronous ? acknowledged[worker] : IntStream.of(begun).sum();
            boolean whole = synchronous || Math.abs(count - Math.rint(count)) <= ROUNDING;
            if (!whole || count < low - ROUNDING || count > high + ROUNDING) {
                wrong += "worker " + worker + " after its step " + acknowledged[worker] + " has " + count
                        + " gradients in weight " + i + ", expected " + low + " to " + high + "\n";
            }
        }
    }

    void finished(int worker) {
        finished[worker] = true;
    }

    /** Returns the maximum number of steps that a worker was ahead of a worker that cannot count as lost. */
    int furthestAhead() {
        return furthestAhead;
    }

    /** Describes gradients that were lost or counted twice; empty if there are none. */
    String wrong() {
        return wrong;
    }
}
