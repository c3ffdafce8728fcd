package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.Role;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.Simulation;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

@Timeout(60)
class SubGroupTest {
    private static final Duration SOON = Duration.ofSeconds(20);
    /** Sizes for the gather, for halving and for the ring. */
    private static final int[] COUNTS = {7, 20_003, 150_001};

    /** Reduces all sizes; each element must be the sum over the members. */
    private static void reduce(Group group, int rounds) {
        try (SymmetricBuffer buffer = group.collectives().symmetric(4L * COUNTS[2])) {
            MemorySegment memory = buffer.memory();
            int own = group.rank() + 1;
            for (int round = 0; round < rounds; round++) {
                for (int count : COUNTS) {
                    for (int i = 0; i < count; i++) {
                        memory.setAtIndex(ValueLayout.JAVA_INT, i, own * (i + round));
                    }
                    group.collectives().allReduce(buffer, 0, count, DType.I32, ReduceOp.SUM).await(SOON);
                    int ranks = group.world() * (group.world() + 1) / 2;
                    for (int i = 0; i < count; i++) {
                        if (memory.getAtIndex(ValueLayout.JAVA_INT, i) != ranks * (i + round)) {
                            throw new AssertionError("[" + i + "] of " + count + " in round " + round + " on rank "
                                    + group.rank() + ": " + memory.getAtIndex(ValueLayout.JAVA_INT, i));
                        }
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"local, true", "local, false", "aeron, true", "aeron, false", "ucx, false"})
    void computesBesideTheOtherSubGroupAndTheWholeGroup(String provider, boolean sharedMemory) {
        TransportConfig transport = Cluster.transport(provider).sharedMemory(sharedMemory);
        List<String> places = new Cluster(transport, 7, OnLoss.END).servers(3).run(group -> {
            Group part = group.split(Member::isServer);
            reduce(part, group.self().isServer() ? 5 : 3);
            reduce(group, 2);
            reduce(part, 2);
            byte[][] all = part.collectives().exchange(new byte[] {(byte) group.rank()});
            assertThat(all[part.rank()]).containsExactly(group.rank());
            assertThat(part.view().members()).extracting(Member::id).doesNotHaveDuplicates().hasSize(part.world());
            part.close();
            assertThatThrownBy(part::collectives).hasMessageContaining("is closed");
            group.collectives().barrier().await(SOON);
            return part.rank() + " of " + part.world();
        });
        assertThat(places).containsExactly("0 of 4", "1 of 4", "2 of 4", "3 of 4", "0 of 3", "1 of 3", "2 of 3");
    }

    @Test
    void splitsAgainAndTwice() {
        List<Integer> sums = Cluster.local(6).run(group -> {
            Group pairs = group.split(member -> member.rank() / 2);
            Group others = group.split(member -> member.rank() / 2);
            Group halves = group.split(member -> member.rank() / 3);
            Group single = pairs.split(Member::id);
            int[] values = {group.rank(), group.rank(), group.rank(), group.rank()};
            List<Group> parts = List.of(pairs, others, halves, single);
            for (int i = 0; i < parts.size(); i++) {
                parts.get(i).collectives().allReduce(MemorySegment.ofArray(values).asSlice(4 * i, 4), DType.I32,
                        ReduceOp.SUM);
            }
            group.collectives().barrier().await(SOON);
            assertThat(values[1]).isEqualTo(values[0]);
            return values[0] + 100 * values[2] + 10_000 * values[3];
        });
        assertThat(sums).containsExactly(301, 10_301, 20_305, 31_205, 41_209, 51_209);
    }

    /** A member of one sub-group is lost, then another process joins; the other sub-group never stops. */
    @Test
    void reformsWhileTheOtherSubGroupContinues() {
        TransportConfig transport = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        CountDownLatch begun = new CountDownLatch(5);
        CountDownLatch reformed = new CountDownLatch(2);
        CyclicBarrier turn = new CyclicBarrier(2);
        new Cluster(transport, 5, OnLoss.REFORM).servers(2).run(group -> {
            Group part = group.split(Member::isServer);
            reduce(part, 1);
            begun.countDown();
            if (group.self().isServer()) {
                boolean more = true;
                while (more) {
                    // Both servers must stop in the same round.
                    byte[][] done = part.collectives().exchange(new byte[] {(byte) reformed.getCount()});
                    more = done[0][0] + done[1][0] > 0;
                    reduce(part, 1);
                }
                assertThat(group.epoch()).isGreaterThan(1);
                return null;
            }
            if (group.rank() == 2) {
                assertThat(begun.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                group.locked(() -> group.transport().close());
                return null;
            }
            assertThatThrownBy(() -> reduce(part, Integer.MAX_VALUE)).isInstanceOfSatisfying(PeerLostException.class,
                    e -> assertThat(e.rank()).isEqualTo(2));
            part.reform(SOON);
            assertThat(part.world()).isEqualTo(2);
            reduce(part, 1);
            turn.await(SOON.toSeconds(), TimeUnit.SECONDS);
            Thread guest = part.rank() > 0 ? null : Thread.ofPlatform().daemon().start(() -> {
                try (Group late = Group.join(GroupConfig.of(transport, group.config().coordinator()))) {
                    reduce(late.split(Member::isServer), 1);
                }
            });
            assertThatThrownBy(() -> reduce(part, Integer.MAX_VALUE)).isInstanceOf(MembershipChangedException.class);
            part.reform(SOON);
            assertThat(part.world()).isEqualTo(3);
            reduce(part, 1);
            if (guest != null) {
                assertThat(guest.join(SOON)).isTrue();
            }
            reformed.countDown();
            assertThat(reformed.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
            return null;
        });
    }

    /** The function of a user runs on the thread that begins the next epoch. */
    @Test
    void endsAloneIfItsFunctionFailsInTheNextEpoch() {
        CountDownLatch formed = new CountDownLatch(3);
        new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5)), 3,
                OnLoss.REFORM).run(group -> {
                    AtomicBoolean fails = new AtomicBoolean();
                    Group part = group.split(member -> {
                        if (fails.get()) {
                            throw new IllegalStateException("no colour");
                        }
                        return member.rank() == 1;
                    });
                    int rank = group.rank();
                    fails.set(rank == 0);
                    formed.countDown();
                    assertThat(formed.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                    if (rank == 1) {
                        return null;
                    }
                    assertThatThrownBy(() -> group.collectives().barrier().await(SOON))
                            .isInstanceOfAny(PeerLostException.class, MembershipChangedException.class);
                    group.reform(SOON);
                    group.collectives().barrier().await(SOON);
                    if (group.rank() == 0) {
                        assertThatThrownBy(part::collectives).isInstanceOf(DistributedException.class)
                                .hasMessageContaining("has failed in epoch").hasMessageContaining("no colour");
                    }
                    group.collectives().barrier().await(SOON);
                    return null;
                });
    }

    @Test
    void refusesColoursThatAreNotEqualToThemselves() {
        Cluster.local(2).run(group -> {
            assertThatThrownBy(() -> group.split(member -> new int[] {member.rank()}))
                    .isInstanceOf(TensorException.class).hasMessageContaining("the colour of rank " + group.rank());
            group.collectives().barrier().await(SOON);
            return null;
        });
    }

    @Test
    void receivesMessagesThatArriveBeforeItIsFormed() {
        CountDownLatch others = new CountDownLatch(2);
        Cluster.local(3).run(group -> {
            if (group.rank() == 1) {
                assertThat(group.await(() -> others.getCount() == 0, SOON)).isTrue();
            }
            try (Group part = group.split(Member::host)) {
                others.countDown();
                reduce(part, 1);
                // No rank frees memory that another one still uses.
                part.collectives().barrier().await(SOON);
                group.collectives().barrier().await(SOON);
            }
            return null;
        });
    }

    @Test
    void endsWithTheWholeGroupOrByItself() {
        Cluster.local(2).run(group -> {
            Group first = group.split(Member::host);
            Group second = group.split(Member::host);
            first.abort("no longer needed");
            assertThatThrownBy(first::collectives).hasMessageContaining("no longer needed");
            reduce(second, 1);
            group.collectives().barrier().await(SOON);
            group.abort("the run was cancelled");
            assertThatThrownBy(second::collectives).hasMessageContaining("the run was cancelled");
            assertThatThrownBy(() -> group.split(Member::host)).hasMessageContaining("the run was cancelled");
            return null;
        });
    }

    /** One worker crashes at a moment of virtual time; both servers and the other workers learn that or continue. */
    @Test
    void isIndependentOfACrashInASimulation() {
        List<String> names = List.of("coordinator", "rank0", "rank1", "rank2", "rank3", "rank4");
        Duration limit = Duration.ofSeconds(20);
        TransportConfig config = TransportConfig.of("simulated", Secret.ofText("a secret of simulated processes"))
                .livenessTimeout(Duration.ofMillis(100));
        for (int at = 30; at <= 105; at += 75) {
            FaultPlan plan = new FaultPlan(at, names, limit, Set.of(FaultPlan.Kind.CRASH), Conditions.GOOD,
                    List.of(new Fault.Crash(Duration.ofMillis(at), 0, "rank1")));
            Map<String, String> ends = new TreeMap<>();
            try (Simulation simulation = Simulation.of(plan)) {
                simulation.start("coordinator", () -> {
                    try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                            config), 5, OnLoss.REFORM, 1, limit)) {
                        coordinator.run(limit);
                    }
                });
                for (int rank = 0; rank < 5; rank++) {
                    String name = names.get(1 + rank);
                    GroupConfig place = GroupConfig.of(null, "coordinator").place(rank, 3).host(name);
                    simulation.start(name, () -> {
                        try (Group group = Group.join(Transport.over(simulation.wire(name), config), place, false)) {
                            ends.put(name, train(simulation, group));
                        } catch (DistributedException e) {
                            ends.put(name, "failed: " + e.getMessage());
                        }
                    });
                }
                simulation.run(limit);
            }
            assertThat(ends).as("a crash at %d ms", at).containsEntry("rank0", "2 after 1 loss")
                    .containsEntry("rank2", "2 after 1 loss").containsEntry("rank3", "2 after 0 losses")
                    .containsEntry("rank4", "2 after 0 losses");
        }
    }

    /**
     * Of the members a, b and c, c is lost; a forms the sub-group of a and b, and b computes. Another process joins and
     * is lost; then a and b form the same sub-group, a for the second time and b for the first.
     */
    @Test
    void formsTheSameSubGroupAfterOneThatAMemberMissed() {
        Duration limit = Duration.ofSeconds(30);
        TransportConfig config = TransportConfig.of("simulated", Secret.ofText("a secret of simulated processes"))
                .livenessTimeout(Duration.ofMillis(100));
        FaultPlan plan = new FaultPlan(1, List.of("coordinator", "a", "b", "c", "late"), limit,
                Set.of(FaultPlan.Kind.CRASH), Conditions.GOOD, List.of(new Fault.Crash(Duration.ofMillis(200), 0, "c"),
                        new Fault.Crash(Duration.ofMillis(1500), 0, "late")));
        Map<String, String> ends = new TreeMap<>();
        try (Simulation simulation = Simulation.of(plan)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), config),
                        3, OnLoss.REFORM, 1, limit)) {
                    coordinator.run(limit);
                }
            });
            for (String name : List.of("a", "b", "c", "late")) {
                simulation.start(name, () -> {
                    simulation.sleep(Duration.ofMillis(name.equals("late") ? 1000 : 0));
                    try (Membership group = Membership.join(Transport.over(simulation.wire(name), config),
                            GroupConfig.of(null, "coordinator").host(name).timeout(Duration.ofSeconds(5)), false,
                            _ -> { })) {
                        ends.put(name, change(group, name));
                    } catch (DistributedException e) {
                        ends.put(name, "failed: " + e.getMessage());
                    }
                });
            }
            simulation.run(limit);
        }
        assertThat(ends).containsEntry("a", "3 3 2").containsEntry("b", "3 3 2");
    }

    /** Takes part in four epochs, and misses the second if this is b; returns the numbers of members that reduced. */
    private static String change(Membership group, String name) {
        Group part = group.split(_ -> "all");
        reduce(part, 1);
        String worlds = String.valueOf(part.world());
        for (long next = group.epoch() + 1; next <= 4; next++) {
            long epoch = next;
            assertThat(group.await(() -> group.epoch() == epoch && group.failure() == null, SOON)).isTrue();
            if (epoch != 2 || name.equals("a")) {
                part.reform(SOON);
            }
            if (epoch > 2) {
                reduce(part, 1);
                worlds += " " + part.world();
            }
        }
        return worlds;
    }

    /** Reduces for 200 ms, and re-forms after a loss. */
    private static String train(Simulation simulation, Group group) {
        boolean server = group.config().role() instanceof Role.Server;
        Group part = group.split(Member::isServer);
        List<PeerLostException> losses = new ArrayList<>();
        for (int[] more = {1}; more[0] != 0;) {
            try {
                reduce(part, 1);
                simulation.sleep(Duration.ofMillis(1));
                more[0] = simulation.now().toMillis() < 300 ? 1 : 0;
                part.collectives().allReduce(MemorySegment.ofArray(more), DType.I32, ReduceOp.MAX);
            } catch (PeerLostException e) {
                assertThat(e.rank()).isEqualTo(1);
                assertThat(server).isFalse();
                losses.add(e);
                part.reform(SOON);
                more[0] = 1;
            }
        }
        return part.world() + " after " + losses.size() + (losses.size() == 1 ? " loss" : " losses");
    }
}
