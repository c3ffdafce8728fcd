package dev.starling.distributed.chaos;

import dev.starling.distributed.network.HostNetwork;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/**
 * Real processes are killed, stopped and cut off: no process hangs, each error names the rank that was lost, the others
 * continue where the strategy promises it, and nothing is left behind.
 */
@Tag("processes")
class ChaosTest {
    private static final long SEED = Long.getLong("chaos.seed", 4711);
    private static final int FAULTS_PER_CLUSTER = 8;

    @ParameterizedTest
    @CsvSource({"ring, tcp, FIRST_KILLED", "elastic, aeron, COORDINATOR_KILLED"})
    @Timeout(120)
    void keepsItsPromise(String strategy, String provider, Fault fault) {
        Chaos chaos = new Chaos(5);
        try (ChaosCluster cluster = new ChaosCluster(strategy, provider, null, false)) {
            begin(cluster);
            chaos.happen(fault, cluster, new SplittableRandom(SEED));
        }
    }

    /**
     * Lets {@code chaos.faults} happen, of all or {@code chaos.kinds}, with all or {@code chaos.strategies}, on several
     * hosts only with {@code chaos.hosts}; limits of time are {@code chaos.slack} times as long on a busy machine.
     */
    @Test
    @Tag("stress")
    @Timeout(value = 12, unit = TimeUnit.HOURS)
    void keepsItsPromisesForLong() {
        Chaos chaos = new Chaos(Double.parseDouble(System.getProperty("chaos.slack", "1")));
        int faults = Integer.getInteger("chaos.faults", 100);
        List<String> failures = new ArrayList<>();
        List<String> strategies = Optional.ofNullable(System.getProperty("chaos.strategies"))
                .map(all -> List.of(all.split(","))).orElse(Fault.STRATEGIES);
        for (int round = 0; chaos.faults() < faults && !Thread.currentThread().isInterrupted(); round++) {
            SplittableRandom random = new SplittableRandom(SEED + round);
            String strategy = strategies.get(round % strategies.size());
            String provider = random.nextInt(2) == 0 ? "aeron" : "tcp";
            boolean onHosts = round % 4 == 3 || Boolean.getBoolean("chaos.hosts");
            System.out.println("chaos.seed=" + (SEED + round) + ' ' + strategy + ' ' + provider
                    + (onHosts ? " on hosts" : ""));
            List<Fault> possible = possible(strategy, onHosts);
            try {
                run(chaos, strategy, provider, onHosts, possible, random);
            } catch (AssertionError | RuntimeException e) {
                failures.add("seed " + (SEED + round) + ": " + e.getMessage());
                System.out.println(failures.getLast());
            }
        }
        System.out.println(chaos.table());
        if (!failures.isEmpty()) {
            throw new AssertionError(failures.size() + " clusters failed:\n" + String.join("\n\n", failures));
        }
    }

    private static List<Fault> possible(String strategy, boolean onHosts) {
        String kinds = System.getProperty("chaos.kinds", "");
        List<Fault> possible = Fault.of(strategy, onHosts).stream()
                .filter(each -> kinds.isEmpty() || List.of(kinds.split(",")).contains(each.name())).toList();
        if (possible.isEmpty()) {
            throw new IllegalArgumentException("chaos.kinds=" + kinds + " has no fault for " + strategy
                    + (onHosts ? " on several hosts" : " on one host") + ", which has " + Fault.of(strategy, onHosts));
        }
        return possible;
    }

    private static void run(Chaos chaos, String strategy, String provider, boolean onHosts, List<Fault> possible,
            SplittableRandom random) {
        try (HostNetwork network = onHosts ? HostNetwork.of(ChaosCluster.WORKERS + 2) : null;
                ChaosCluster cluster = new ChaosCluster(strategy, provider, network, onHosts && random.nextBoolean())) {
            begin(cluster);
            for (int i = 0; i < FAULTS_PER_CLUSTER; i++) {
                chaos.happen(possible.get(random.nextInt(possible.size())), cluster, random);
            }
        }
    }

    private static void begin(ChaosCluster cluster) {
        long nowNs = System.nanoTime();
        cluster.start();
        cluster.awaitTogether(nowNs);
    }
}
