package dev.starling.nn.fuzz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starling.tensor.fuzz.FuzzRunner;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Runs {@link LayerApiFuzz} with fixed seeds, and with many seeds. */
class LayerApiFuzzTest {
    private static final Duration DEADLINE = Duration.ofSeconds(60);
    private static final int SHORT = 5_000;

    private static void passes(long first, long count) throws Exception {
        FuzzRunner.Outcome outcome = new FuzzRunner(LayerApiFuzz.class, DEADLINE, "-Xmx256m").run(first, count, false);
        assertEquals(Map.of(), outcome.findings());
    }

    @Test
    void fixedSeedsFindNothing() throws Exception {
        assertTrue(new LayerApiFuzz().members() > 300, "the search finds too few members");
        passes(0, SHORT);
    }

    /** The properties {@code fuzz.first} and {@code fuzz.count} select the seeds. */
    @Test
    @Tag("stress")
    void manySeedsFindNothing() throws Exception {
        passes(Long.getLong("fuzz.first", SHORT), Long.getLong("fuzz.count", 1_000_000));
    }
}
