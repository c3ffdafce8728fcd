package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/** Two members lose the connection to each other, but not to the coordinator. */
class PartitionTest {
    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final Pattern LOSS = Pattern.compile("rank 2 is lost, last heard (\\d+) ms ago: cut off from 1 of "
            + "the 2 other members; rank 1 reports: received nothing from rank2 for (\\d+) ms");

    /**
     * Returns the loss that ended the group on each of three ranks, of which the last two are cut off from each other.
     */
    private static List<PeerLostException> losses() {
        List<String> names = List.of("coordinator", "rank0", "rank1", "rank2");
        FaultPlan plan = new FaultPlan(1, names, TIMEOUT, Set.of(FaultPlan.Kind.CUT), Conditions.GOOD,
                List.of(new Fault.Cut(Duration.ofMillis(50), TIMEOUT, Set.of("rank1"), Set.of("rank2"), true)));
        TransportConfig config = TransportConfig.of("simulated", Secret.ofText("a secret of simulated processes"))
                .livenessTimeout(SILENCE);
        List<PeerLostException> losses = new ArrayList<>(names.stream().skip(1).<PeerLostException>map(_ -> null)
                .toList());
        try (Simulation simulation = Simulation.of(plan)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), config),
                        3, Coordinator.OnLoss.END, 1, TIMEOUT)) {
                    coordinator.run(TIMEOUT.multipliedBy(2));
                }
            });
            for (int rank = 0; rank < 3; rank++) {
                String name = names.get(1 + rank);
                GroupConfig membership = GroupConfig.of(null, "coordinator").preferredRank(rank).host(name)
                        .joinTimeout(TIMEOUT);
                simulation.start(name, () -> {
                    try (Membership group = Membership.join(Transport.over(simulation.wire(name), config), membership,
                            false, _ -> { })) {
                        group.await(group::isEnded, TIMEOUT);
                        if (group.failure() instanceof PeerLostException loss) {
                            losses.set(membership.preferredRank(), loss);
                        }
                    }
                });
            }
            simulation.run(TIMEOUT.multipliedBy(3));
        }
        return losses;
    }

    @Test
    void reportsWhenTheOtherMemberLastHeardTheLostOne() {
        List<PeerLostException> losses = losses();
        // The coordinator sends the loss to ranks 0 and 1, and a refusal to rank 2.
        for (PeerLostException loss : losses.subList(0, 2)) {
            Matcher message = LOSS.matcher(loss.getMessage());
            assertThat(message.matches()).as(loss.getMessage()).isTrue();
            assertThat(loss.rank()).isEqualTo(2);
            long last = Long.parseLong(message.group(1));
            long suspected = Long.parseLong(message.group(2));
            assertThat(loss.silentFor().toMillis()).isEqualTo(last);
            assertThat(suspected).isGreaterThanOrEqualTo(SILENCE.toMillis());
            // The coordinator waits half the liveness timeout for other reports; messages need little time.
            assertThat(last - suspected).isBetween(SILENCE.toMillis() / 2, SILENCE.toMillis());
        }
        assertThat(losses.get(2)).isNull();
    }
}
