package dev.starling.nn.train;

import dev.starling.errors.Durations;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/**
 * Ends a run after the step in which a duration has passed since it started or resumed. With several processes, one
 * that has the listener ends the run of all that share batches.
 */
public final class TimeLimit implements TrainingListener {
    private final Duration limit;
    private long startNs;

    private TimeLimit(Duration limit) {
        this.limit = limit;
    }

    /** Returns a listener with a limit. */
    public static TimeLimit of(Duration limit) {
        if (limit.isNegative()) {
            throw TensorException.argument("time limit", "the limit must be >= 0, got " + Durations.text(limit),
                    "use for example Duration.ofMinutes(30)");
        }
        return new TimeLimit(limit);
    }

    @Override
    public void started(Progress progress) {
        startNs = System.nanoTime();
    }

    @Override
    public void stepEnded(Progress progress) {
        if (System.nanoTime() - startNs >= TimeUnit.NANOSECONDS.convert(limit)) {
            progress.stop();
        }
    }

    @Override
    public String toString() {
        return "time limit of " + limit;
    }
}
