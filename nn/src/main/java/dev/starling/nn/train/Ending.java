package dev.starling.nn.train;

import java.util.List;

/** What happens at the end of a {@code try} block, also if the block fails; what fails here is then suppressed. */
@FunctionalInterface
interface Ending extends AutoCloseable {
    @Override
    void close();

    /**
     * Returns the call of {@link TrainingListener#ended} of all listeners, in order. If one throws an exception, the
     * others are called nevertheless; the first exception is thrown and suppresses later ones.
     */
    static Ending of(List<TrainingListener> listeners, Progress progress) {
        return () -> {
            if (!listeners.isEmpty()) {
                try (Ending others = of(listeners.subList(1, listeners.size()), progress)) {
                    listeners.getFirst().ended(progress);
                }
            }
        };
    }
}
