package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.LongSupplier;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * A worker that is cut off for a while logs a warning, continues to train, and mixes with its peers again afterwards.
 */
class CutOffTest {
    /** About 600 ms of training. */
    private static final int EPOCHS = 40;
    private static final Logger LOG = Logger.getLogger("dev.starling.distributed");

    private static final String ALONE = "rank {0} is cut off";
    private static final String BACK = "rank {0} is no longer cut off";

    /** Collects log records. */
    private static final class Log extends Handler {
        private final List<String> lines = Collections.synchronizedList(new ArrayList<>());
        private final LongSupplier mixed;
        private long mixedBefore;

        /** Reads the number of mixtures of the worker when it is connected again. */
        Log(LongSupplier mixed) {
            this.mixed = mixed;
        }

        @Override
        public void publish(LogRecord line) {
            if (line.getLevel().intValue() >= Level.INFO.intValue()) {
                lines.add(line.getLevel() + " " + line.getMessage());
                mixedBefore = line.getMessage().startsWith(BACK) ? mixed.getAsLong() : mixedBefore;
            }
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }

        long count(String beginning) {
            return lines.stream().filter(line -> line.startsWith(beginning)).count();
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {0, 1, 2})
    void mixesAgainAfterACut(long rank) {
        String one = "rank" + rank;
        Set<String> rest = new HashSet<>(Schedule.names(3));
        rest.remove(one);
        FaultPlan plan = new FaultPlan(rank, Schedule.names(3), Schedule.HORIZON, Set.of(FaultPlan.Kind.CUT),
                Conditions.GOOD, List.of(new Fault.Cut(Duration.ofMillis(60), Duration.ofMillis(130), Set.of(one), rest,
                        true)));
        Map<String, Gossip> all = new TreeMap<>();
        Log log = new Log(() -> all.get(one).mixed());
        LOG.addHandler(log);
        LOG.setUseParentHandlers(false);
        try {
            Map<String, Outcome> outcomes = Schedule.run(plan, OnLoss.REFORM, EPOCHS, group -> {
                Gossip gossip = Gossip.of(group, 1);
                all.put(group.config().host(), gossip);
                return gossip;
            }).outcomes();
            outcomes.forEach((name, outcome) -> assertThat(outcome.failure).as(name).isNull());
            assertThat(log.count("WARNING " + ALONE)).isOne();
            assertThat(log.count("INFO " + BACK)).isOne();
            assertThat(all.get(one).mixed()).isGreaterThan(log.mixedBefore);
            all.forEach((name, gossip) -> assertThat(gossip.isCutOff()).as(name).isFalse());
        } finally {
            LOG.setUseParentHandlers(true);
            LOG.removeHandler(log);
        }
    }
}
