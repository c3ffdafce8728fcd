package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.Collectives;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.Simulation;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/** A group in which members connect only to those that they need, with as few members as such a group can have. */
class FewLinksTest {
    private static final int WORLD = 11;
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final TransportConfig CONFIG = TransportConfig.of("simulated",
            Secret.ofText("a secret of simulated processes")).livenessTimeout(Duration.ofMillis(100));

    private int finished;

    /** Runs a program on each rank. */
    private void run(Coordinator.OnLoss onLoss, int mustFinish, Consumer<Membership> program, Fault... faults) {
        try (Simulation simulation = Simulation.of(7)) {
            for (Fault fault : faults) {
                simulation.plan(fault);
            }
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), CONFIG),
                        WORLD, onLoss, 1, TIMEOUT)) {
                    coordinator.run(TIMEOUT.multipliedBy(2));
                }
            });
            for (int rank = 0; rank < WORLD; rank++) {
                String name = "rank" + rank;
                GroupConfig membership = GroupConfig.of(null, "coordinator").preferredRank(rank).host(name)
                        .joinTimeout(TIMEOUT).timeout(TIMEOUT).maxMesh(2);
                simulation.start(name, () -> {
                    try (Membership group = Membership.join(Transport.over(simulation.wire(name), CONFIG), membership,
                            false, _ -> { })) {
                        program.accept(group);
                        finished++;
                        group.await(() -> finished >= mustFinish, TIMEOUT);
                    }
                });
            }
            simulation.run(TIMEOUT.multipliedBy(4));
        }
        assertThat(finished).isEqualTo(mustFinish);
    }

    private static boolean isLinked(Membership group, int rank) {
        return group.endpoint(group.view().members().get(rank).id()) != null;
    }

    /** Returns a rank to which this one has no connection. */
    private static int stranger(Membership group) {
        int rank = (group.rank() + 6) % WORLD;
        for (; rank == group.rank() || isLinked(group, rank); rank = (rank + 1) % WORLD) { }
        return rank;
    }

    private static void reduce(Group group) {
        try (SymmetricBuffer buffer = group.collectives().symmetric(4)) {
            buffer.memory().set(ValueLayout.JAVA_INT, 0, 1 + group.rank());
            group.collectives().allReduce(buffer, 0, 1, DType.I32, ReduceOp.SUM).await(TIMEOUT);
            assertThat(buffer.memory().get(ValueLayout.JAVA_INT, 0)).isEqualTo(group.world() * (group.world() + 1) / 2);
        }
    }

    @Test
    void opensAConnectionWhenATransferNeedsIt() {
        run(Coordinator.OnLoss.END, WORLD, group -> {
            // Each rank has two ranks to which it is not connected: both directions of a knock occur.
            int distance = Math.floorMod(stranger(group) - group.rank(), WORLD);
            Collectives collectives = group.collectives();
            byte[][] distances = collectives.exchange(new byte[] {(byte) distance});
            try (Arena arena = Arena.ofShared()) {
                List<Work> transfers = new ArrayList<>();
                MemorySegment own = arena.allocate(100).fill((byte) group.rank());
                transfers.add(collectives.send(own, (group.rank() + distance) % WORLD, 1));
                for (int from = 0; from < WORLD; from++) {
                    if ((from + distances[from][0]) % WORLD == group.rank()) {
                        MemorySegment into = arena.allocate(100);
                        Work receive = collectives.receive(into, from, 1);
                        receive.await(TIMEOUT);
                        assertThat(into.get(ValueLayout.JAVA_BYTE, 99)).isEqualTo((byte) from);
                        assertThat(isLinked(group, from)).isTrue();
                    }
                }
                transfers.forEach(transfer -> transfer.await(TIMEOUT));
            }
            reduce(group);
        });
    }

    @Test
    void connectsToAllIfAStrategyNeedsThat() {
        run(Coordinator.OnLoss.END, WORLD, group -> {
            group.connectToAll();
            for (int rank = 0; rank < WORLD; rank++) {
                assertThat(rank == group.rank() || isLinked(group, rank)).as("link to %s", rank).isTrue();
            }
        });
    }

    @Test
    void reducesInASubGroupWhoseMembersAreNotConnected() {
        run(Coordinator.OnLoss.END, WORLD, group -> {
            // Ranks 0, 3, 6 and 9 and so on.
            try (Group third = group.split(member -> member.rank() % 3)) {
                reduce(third);
                reduce(third);
            }
        });
    }

    @Test
    void reducesByHostInThreadsOverTcp() {
        new Cluster(Cluster.transport("tcp"), 12, Coordinator.OnLoss.END).maxMesh(2)
                .hosts("a", "a", "a", "b", "b", "b", "c", "c", "c", "d", "d", "d").run(group -> {
                    assertThat(group.view().members()).filteredOn(member -> isLinked(group, member.rank()))
                            .hasSizeLessThan(11);
                    int count = 50_000;
                    try (SymmetricBuffer buffer = group.collectives().symmetric(4 * count)) {
                        for (int i = 0; i < count; i++) {
                            buffer.memory().setAtIndex(ValueLayout.JAVA_FLOAT, i, group.rank() + i);
                        }
                        group.collectives().allReduce(buffer, 0, count, DType.F32, ReduceOp.SUM).await(TIMEOUT);
                        for (int i = 0; i < count; i++) {
                            assertThat(buffer.memory().getAtIndex(ValueLayout.JAVA_FLOAT, i)).isEqualTo(66 + 12 * i);
                        }
                    }
                    return null;
                });
    }

    @Test
    void passesOnThatARankCalledAnotherCollective() {
        run(Coordinator.OnLoss.END, WORLD, group -> {
            try (SymmetricBuffer buffer = group.collectives().symmetric(64)) {
                int count = group.rank() == 4 ? 8 : 16;
                assertThatThrownBy(() -> group.collectives().allReduce(buffer, 0, count, DType.I32, ReduceOp.SUM)
                        .await(TIMEOUT)).isInstanceOf(CollectiveMismatchException.class);
            }
        });
    }

    @Test
    void reportsALossToRanksThatWereNotConnectedToTheLostOne() {
        run(Coordinator.OnLoss.END, WORLD - 1, group -> {
            assertThatThrownBy(() -> {
                while (true) {
                    group.collectives().barrier().await(TIMEOUT);
                }
            }).isInstanceOfSatisfying(PeerLostException.class, loss -> assertThat(loss.rank()).isEqualTo(6));
        }, new Fault.Crash(Duration.ofMillis(40), 0, "rank6"));
    }

    @Test
    void continuesWithoutALostRank() {
        run(Coordinator.OnLoss.REFORM, WORLD - 1, group -> {
            assertThatThrownBy(() -> {
                while (true) {
                    group.collectives().barrier().await(TIMEOUT);
                }
            });
            group.reform(TIMEOUT);
            assertThat(group.world()).isEqualTo(WORLD - 1);
            reduce(group);
        }, new Fault.Crash(Duration.ofMillis(40), 0, "rank6"));
    }

    @Test
    void reportsARankThatCannotBeReachedWhenItIsNeeded() {
        run(Coordinator.OnLoss.REFORM, WORLD, group -> {
            int rank = group.rank();
            group.await(() -> false, Duration.ofMillis(50));
            assertThat(rank == 0 && isLinked(group, 6)).isFalse();
            if (rank == 0) {
                try (Arena arena = Arena.ofShared()) {
                    assertThatThrownBy(() -> group.collectives().receive(arena.allocate(8), 6, 1).await(TIMEOUT))
                            .isInstanceOfSatisfying(PeerLostException.class,
                                    loss -> assertThat(loss.rank()).isEqualTo(6));
                }
            }
            if (rank == 6) {
                group.await(group::isEnded, TIMEOUT);
            } else {
                group.await(() -> group.failure() != null, TIMEOUT);
                group.reform(TIMEOUT);
                assertThat(group.world()).isEqualTo(WORLD - 1);
            }
        }, new Fault.Cut(Duration.ofMillis(20), TIMEOUT.multipliedBy(5), Set.of("rank0"), Set.of("rank6"), true));
    }
}
