package dev.starling.nn.serve;

import dev.starling.errors.Durations;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.function.Function;

/**
 * Collects the settings of a {@link Predictor} or {@link RecordPredictor}.
 *
 * @param <P> what it builds
 */
public final class PredictorBuilder<P> {
    private final Function<Settings, P> start;
    private int maxBatch = 32;
    private int maxQueue = 1024;
    private Duration maxDelay = Duration.ZERO;
    private Duration timeout = Duration.ofSeconds(10);

    /** The settings; the methods of the builder describe them. */
    record Settings(int maxBatch, int maxQueue, Duration maxDelay, Duration timeout) { }

    PredictorBuilder(Function<Settings, P> start) {
        this.start = start;
    }

    /** Sets the maximum number of examples that are computed together; default 32. */
    public PredictorBuilder<P> maxBatch(int examples) {
        maxBatch = requirePositive("maxBatch", examples);
        return this;
    }

    /**
     * Sets how long the first example of a batch waits for others; default 0: a batch consists of the requests that
     * wait when the one before it is complete.
     */
    public PredictorBuilder<P> maxDelay(Duration delay) {
        if (delay.isNegative()) {
            throw TensorException.argument("predictor", "maxDelay must be 0 or more, got " + delay,
                    "give a longer delay");
        }
        maxDelay = delay;
        return this;
    }

    /** Sets how many requests may wait; a further one is refused. Default 1,024. */
    public PredictorBuilder<P> maxQueue(int requests) {
        maxQueue = requirePositive("maxQueue", requests);
        return this;
    }

    /** Sets how long a prediction without a timeout of its own may take; default 10 s. */
    public PredictorBuilder<P> timeout(Duration duration) {
        if (!duration.isPositive()) {
            throw TensorException.argument("predictor", "the timeout must be positive, got " + Durations.text(duration),
                    "give a longer timeout");
        }
        timeout = duration;
        return this;
    }

    private static int requirePositive(String what, int value) {
        if (value < 1) {
            throw TensorException.argument("predictor", what + " must be 1 or more, got " + value,
                    "give a larger number");
        }
        return value;
    }

    /**
     * Captures the model for batches of several sizes up to the largest, and starts the predictor's thread.
     *
     * @throws TensorException if the model does not accept the example, or does not return one result for each
     */
    public P build() {
        return start.apply(new Settings(maxBatch, maxQueue, maxDelay, timeout));
    }
}
