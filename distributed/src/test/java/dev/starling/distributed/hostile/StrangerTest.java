package dev.starling.distributed.hostile;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A process without the secret attacks a ring that trains, in all ways that {@link TcpAttack} and {@link AeronAttack}
 * know: no member is lost, the weights stay right to the bit, nothing is disclosed, and memory is bounded.
 */
@Tag("processes")
class StrangerTest {
    private static final long SEED = Long.getLong("stranger.seed", 4711);
    /** Connections or datagrams in a second. */
    private static final long CONNECTIONS = Long.getLong("stranger.connections", 500);
    private static final long DATAGRAMS = Long.getLong("stranger.datagrams", 5_000);
    private static final long MAX_WARM_UP_NS = TimeUnit.MINUTES.toNanos(3);
    private static final long WINDOW_MS = Long.getLong("stranger.windowMs", 1_000);
    private static final int MAX_FILES = 420;
    /** The default, and a short one, so that little memory is needed for links of strangers. */
    private static final int TERM = 2 << 20;
    private static final int SHORT_TERM = 256 << 10;
    private static final double MIN_THROUGHPUT = 0.8;
    /** As in real runs, which take longer than the programs of other tests. */
    private static final List<String> COMPILED = List.of("-XX:TieredStopAtLevel=4");

    private static long rate(String provider) {
        return provider.equals("tcp") ? CONNECTIONS : DATAGRAMS;
    }

    /**
     * Returns the most that a rank's memory may grow: by the JVM's compiled code, and over Aeron by the part of its
     * heap of 256 MB that it did not use before, and by 8 links of unproven peers (4, and one for each of its own),
     * two for each of its own, and a few for refusals, of three terms each, for its wire and the coordinator's.
     */
    private static long maxGrowth(String provider, int term) {
        return (128L << 20) + (provider.equals("tcp") ? 0 : (192L << 20) + 2L * (8 + 2 * 4 + 4) * 3 * term);
    }

    @ParameterizedTest
    @ValueSource(strings = {"tcp", "aeron"})
    @Timeout(120)
    void disturbsNoRing(String provider) throws Exception {
        try (AttackedRing ring = new AttackedRing(provider, List.of(), SHORT_TERM, SEED)) {
            for (String kind : Stranger.kinds(provider)) {
                ring.attack(kind, rate(provider), rate(provider) / 10);
            }
            check(ring, provider, SHORT_TERM);
        }
    }

    static List<String> providers() {
        return List.of(System.getProperty("stranger.providers", "tcp,aeron").split(","));
    }

    /**
     * Attacks each of {@code stranger.providers} for {@code stranger.minutes} in all ways or in {@code stranger.kinds};
     * measures what the ring loses after a warm-up.
     */
    @ParameterizedTest
    @MethodSource("providers")
    @Tag("stress")
    void slowsNoRingForLong(String provider) throws Exception {
        List<String> kinds = Optional.ofNullable(System.getProperty("stranger.kinds"))
                .map(all -> List.of(all.split(","))).orElse(Stranger.kinds(provider));
        System.out.println("stranger.seed=" + SEED + ", a second: " + rate(provider));
        try (AttackedRing ring = new AttackedRing(provider, COMPILED, TERM, SEED)) {
            long begin = System.nanoTime();
            long lasts = TimeUnit.SECONDS.toNanos(
                    (long) (60 * Double.parseDouble(System.getProperty("stranger.minutes", "2"))));
            // The JIT compilers are busy until the ranks have met each kind for a while; that is not to be measured.
            while (System.nanoTime() - begin < Math.min(lasts / 4, MAX_WARM_UP_NS)) {
                for (String kind : kinds) {
                    ring.warmUp(kind, rate(provider), WINDOW_MS);
                }
            }
            do {
                for (String kind : kinds) {
                    ring.measure(kind, rate(provider), WINDOW_MS);
                }
            } while (System.nanoTime() - begin < lasts);
            check(ring, provider, TERM);
            assertThat(ring.lowestBesideControl()).as("lowest throughput\n%s", ring.table())
                    .isGreaterThan(MIN_THROUGHPUT);
        }
    }

    private static void check(AttackedRing ring, String provider, int term) throws Exception {
        try {
            ring.finish();
        } finally {
            System.out.println(ring.table());
        }
        assertThat(ring.residentGrowth()).as(ring::table).isLessThan(maxGrowth(provider, term));
        assertThat(ring.maxFiles()).as(ring::table).isLessThan(MAX_FILES);
    }
}
