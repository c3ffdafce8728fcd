package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.distributed.codec.PowerSgd;
import dev.starling.distributed.codec.TopK;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ring.RingAllReduce;
import java.util.function.Function;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/**
 * Every strategy under many fault plans, each drawn from a seed: loss, delay, cuts, pauses and crashes of workers and
 * of the coordinator. No run hangs, a failed process names the cause, and the surviving processes agree. A test failure
 * prints the plan, which reproduces the run.
 */
class FaultSchedulesTest {
    private static final StrategyConformance GOSSIP = StrategyConformance.of(Gossip::of).elastic();
    private static final StrategyConformance RING = StrategyConformance.of(group -> RingAllReduce.over(group).build())
            .refuses(group -> RingAllReduce.over(group).halfPrecision().build());
    private static final StrategyConformance ELASTIC_RING = StrategyConformance
            .of(group -> RingAllReduce.over(group).elastic().build()).elastic();
    private static final StrategyConformance OWN = StrategyConformance.of(OwnElasticStrategy::new).elastic();

    private static StrategyConformance compressed(GradientCodec codec) {
        Function<Group, RingAllReduce.Builder> ring = group -> RingAllReduce.over(group).bucketBytes(512).elastic();
        return StrategyConformance.of(group -> ring.apply(group).codec(codec).build()).elastic().inexact()
                .refuses(group -> ring.apply(group).build());
    }

    private static void run(Sweep sweep, StrategyConformance conformance, boolean elastic) {
        StrategyConformance.Report report = sweep.run(conformance);
        assertThat(report.schedules()).isEqualTo(sweep.count());
        assertThat(report.finished()).as("ranks that had to finish").isGreaterThanOrEqualTo(sweep.count() / 3);
        if (elastic) {
            assertThat(report.returned()).as("ranks that crashed, were restarted and finished")
                    .isGreaterThanOrEqualTo(sweep.count() / 200);
        }
    }

    @Test
    void gossips() {
        run(Sweep.some(1306, 2783, 4097, 4682, 6065, 6399), GOSSIP, true);
    }

    @Test
    @Tag("stress")
    void gossipsForLong() {
        run(Sweep.many(), GOSSIP, true);
    }

    @Test
    void reduces() {
        run(Sweep.some(3008, 4097, 5120, 7682), RING, false);
    }

    @Test
    @Tag("stress")
    void reducesForLong() {
        run(Sweep.many(), RING, false);
    }

    @Test
    void reducesElastically() {
        run(Sweep.some(4097), ELASTIC_RING, true);
    }

    @Test
    @Tag("stress")
    void reducesElasticallyForLong() {
        run(Sweep.many(), ELASTIC_RING, true);
    }

    @Test
    void reducesCompressed() {
        run(Sweep.few(), compressed(new TopK(0.2)), false);
        run(Sweep.few(), compressed(new PowerSgd(2)), false);
    }

    @Test
    @Tag("stress")
    void reducesCompressedForLong() {
        run(Sweep.many(), compressed(new TopK(0.2)), true);
        run(Sweep.many(), compressed(new PowerSgd(2)), true);
    }

    /** A strategy of a user's own, of nothing but public parts. */
    @Test
    void runsAStrategyOfAUsersOwn() {
        run(Sweep.few(), OWN, false);
    }
}
