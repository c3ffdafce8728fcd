package dev.starling.tensor.fuzz;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Runs {@link ApiFuzz} over fixed seeds, and over many. */
class ApiFuzzTest {
    private static final Duration DEADLINE = Duration.ofSeconds(30);
    private static final int SHORT = 6_000;

    private static void passes(long first, long count) throws Exception {
        FuzzRunner.Outcome outcome = new FuzzRunner(ApiFuzz.class, DEADLINE, "-Xmx256m").run(first, count, false);
        assertEquals(Map.of(), outcome.findings());
    }

    @Test
    void fixedSeedsFindNothing() throws Exception {
        assertTrue(new ApiFuzz().members() > 800, () -> "the search finds few members");
        passes(0, SHORT);
    }

    /** Properties {@code fuzz.first} and {@code fuzz.count} set the seeds. */
    @Test
    @Tag("stress")
    void manySeedsFindNothing() throws Exception {
        passes(Long.getLong("fuzz.first", SHORT), Long.getLong("fuzz.count", 1_000_000));
    }
}
