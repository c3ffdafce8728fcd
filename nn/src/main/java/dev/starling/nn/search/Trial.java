package dev.starling.nn.search;

import java.io.Serializable;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What came of one trial.
 *
 * @param number of its settings in the search, from 0
 * @param settings what was tried
 * @param epochs it was trained for
 * @param loss on the held-out examples; infinite if training failed
 * @param metric on the held-out examples, NaN if none is measured
 * @param seconds it took
 * @param problem why it failed, or {@code null}
 */
public record Trial(int number, Map<String, String> settings, int epochs, double loss, double metric, double seconds,
        @Nullable String problem) implements Serializable {
    private static final long serialVersionUID = 1L;

    /**
     * A trial that has not been made yet.
     *
     * @param number of its settings in the search, from 0
     * @param settings what to try
     * @param epochs to train for
     */
    public record Plan(int number, Map<String, String> settings, int epochs) implements Serializable {
        private static final long serialVersionUID = 1L;
    }
}
