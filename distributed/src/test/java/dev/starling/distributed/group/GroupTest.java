package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.MappedMemory;
import dev.starling.distributed.Member;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.Role;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.coordinator.Rendezvous;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Wire;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Proxy;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GroupTest {
    private static final Duration SOON = Duration.ofSeconds(10);

    @Test
    void theWireLearnsHowManyMembersShareItsHost() {
        Queue<Object> counts = new ConcurrentLinkedQueue<>();
        UnaryOperator<Wire> listening = wire -> (Wire) Proxy.newProxyInstance(Wire.class.getClassLoader(),
                new Class<?>[] {Wire.class}, (_, method, arguments) -> {
                    if (method.getName().equals("pollingThreads")) {
                        counts.add(arguments[0]);
                    }
                    return method.invoke(wire, arguments);
                });
        Cluster.local(3).hosts("a", "b", "a").around(listening).run(Group::rank);
        assertThat(counts).containsExactlyInAnyOrder(1, 2, 2);
    }

    /** As where there is no memory for the next epoch. */
    @Test
    void closesTheTransportIfAnEpochCannotBegin() throws Exception {
        AtomicInteger ready = new AtomicInteger();
        Set<Wire> failing = ConcurrentHashMap.newKeySet();
        Set<Wire> closed = ConcurrentHashMap.newKeySet();
        CountDownLatch open = new CountDownLatch(3);
        UnaryOperator<Wire> exhausted = wire -> (Wire) Proxy.newProxyInstance(Wire.class.getClassLoader(),
                new Class<?>[] {Wire.class}, (_, method, arguments) -> {
                    if (method.getName().equals("close") && closed.add(wire)) {
                        open.countDown();
                    } else if (method.getName().equals("remoteWrites") && ready.get() == 2) {
                        failing.add(wire);
                        throw new IllegalStateException("no memory to register");
                    }
                    return method.invoke(wire, arguments);
                });
        Cluster cluster = new Cluster(TransportConfig.of("local", Secret.random()), 3, Coordinator.OnLoss.REFORM)
                .around(exhausted);
        Queue<String> errors = new ConcurrentLinkedQueue<>();
        assertThatThrownBy(() -> cluster.run(group -> {
            group.collectives().barrier().await(SOON);
            if (group.rank() == 2) {
                group.await(() -> ready.get() == 2, SOON);
                return null;
            }
            ready.incrementAndGet();
            try {
                beginNextEpoch(group);
            } catch (RuntimeException e) {
                errors.add(String.valueOf(e.getMessage()));
                throw e;
            }
            return null;
        })).isInstanceOf(RuntimeException.class);
        // The second of the two may fail because the first has closed its connection.
        assertThat(errors).anyMatch(error -> error.contains("no memory to register"));
        assertThat(failing).isNotEmpty();
        assertThat(open.await(10, TimeUnit.SECONDS)).isTrue();
    }

    /** Waits for a member that has left, and then works in the epoch without it, which may begin within the wait. */
    private static void beginNextEpoch(Group group) {
        try {
            group.collectives().barrier().await(SOON);
        } catch (PeerLostException e) {
            group.reform(SOON);
            group.collectives().barrier().await(SOON);
        }
    }

    @Test
    void assignsRanksAndExchanges() {
        List<String> results = Cluster.local(3).run(group -> {
            byte[][] all = group.collectives().exchange(("I am " + group.rank()).getBytes(StandardCharsets.UTF_8));
            StringBuilder text = new StringBuilder();
            for (byte[] each : all) {
                text.append(new String(each, StandardCharsets.UTF_8)).append(';');
            }
            return text.toString();
        });
        assertThat(results).containsOnly("I am 0;I am 1;I am 2;");
    }

    @Test
    void reducesInRegisteredMemory() {
        int count = 100_003;
        List<Float> sums = Cluster.local(3).run(group -> {
            try (SymmetricBuffer buffer = group.collectives().symmetric(count * 4L)) {
                MemorySegment memory = buffer.memory();
                Work work = group.collectives().prepareAllReduce(buffer, 0, count, DType.F32, ReduceOp.SUM, "test");
                float last = 0;
                for (int round = 1; round <= 20; round++) {
                    for (int i = 0; i < count; i++) {
                        memory.setAtIndex(ValueLayout.JAVA_FLOAT, i, (group.rank() + 1) * (i % 10 + round));
                    }
                    work.start();
                    work.await(SOON);
                    for (int i = 0; i < count; i++) {
                        assertThat(memory.getAtIndex(ValueLayout.JAVA_FLOAT, i)).isEqualTo(6 * (i % 10 + round));
                    }
                    last = memory.getAtIndex(ValueLayout.JAVA_FLOAT, count - 1);
                }
                group.collectives().barrier().await(SOON);
                return last;
            }
        });
        assertThat(sums).containsOnly(6f * ((count - 1) % 10 + 20));
    }

    @Test
    void allocatesRegisteredMemoryWithoutTheLock() {
        assumeTrue(MappedMemory.isAvailable());
        long bytes = (32 << 20) + 4096 * 4711L;
        Cluster.local(1).run(group -> {
            Collectives collectives = group.collectives();
            FutureTask<SymmetricBuffer> buffer = new FutureTask<>(() -> collectives.symmetric(bytes));
            Thread registers = Thread.ofPlatform().daemon().unstarted(buffer);
            group.locked(() -> {
                registers.start();
                long begin = System.nanoTime();
                // It comes to wait for the lock when it has the memory.
                while (registers.getState() != Thread.State.WAITING || MappedMemory.count(bytes) < 1) {
                    assertThat(System.nanoTime() - begin).isLessThan(SOON.toNanos());
                    LockSupport.parkNanos(1_000_000);
                }
            });
            buffer.get(SOON.toSeconds(), TimeUnit.SECONDS).close();
            assertThat(MappedMemory.count(bytes)).isZero();
            return null;
        });
    }

    @Test
    void freesMemoryThatIsRegisteredTooLate() {
        assumeTrue(MappedMemory.isAvailable());
        long bytes = (1 << 20) + 4096 * 4711L;
        Cluster.local(1).run(group -> {
            Collectives collectives = group.collectives();
            collectives.stop();
            assertThatThrownBy(() -> collectives.symmetric(bytes)).hasMessageContaining("has stopped");
            assertThat(MappedMemory.count(bytes)).isZero();
            return null;
        });
    }

    @Test
    void namesBothCallsOfAMismatch() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 16);
            group.collectives().allReduce(buffer, 0, group.rank() == 0 ? 100 : 200, DType.F32, ReduceOp.SUM)
                    .await(SOON);
            return null;
        })).isInstanceOf(DistributedException.class).hasMessageContaining("f32[100]").hasMessageContaining("f32[200]");
    }

    @Test
    void refusesPartialElementsAndMemoryThatCannotReceive() {
        List<byte[]> all = Cluster.local(2).run(group -> {
            Collectives collectives = group.collectives();
            byte mine = (byte) (10 + group.rank());
            byte[] bytes = {mine, mine, mine, mine, mine, mine, mine};
            assertThatThrownBy(() -> collectives.allReduce(MemorySegment.ofArray(bytes), DType.I32, ReduceOp.SUM))
                    .isInstanceOf(TensorException.class).hasMessageContaining("all reduce (sum)")
                    .hasMessageContaining("7 bytes").hasMessageContaining("multiple of 4")
                    .hasMessageContaining("i32");
            assertThatThrownBy(() -> collectives.allReduce(MemorySegment.ofArray(bytes).asSlice(0, 4).asReadOnly(),
                    DType.I32, ReduceOp.SUM)).isInstanceOf(TensorException.class).hasMessageContaining("read-only");
            assertThat(bytes).containsOnly(mine);
            // A refused call has no effect, and a collective on bytes may have any length.
            collectives.allReduce(MemorySegment.ofArray(bytes).asSlice(0, 4), DType.I32, ReduceOp.SUM);
            assertThat(bytes).containsExactly(21, 21, 21, 21, mine, mine, mine);
            collectives.broadcast(MemorySegment.ofArray(bytes), 1);
            return bytes;
        });
        assertThat(all).containsOnly(new byte[] {21, 21, 21, 21, 11, 11, 11});
    }

    @Test
    void broadcastsFromReadOnlyMemory() {
        List<byte[]> all = Cluster.local(2).run(group -> {
            byte[] bytes = new byte[3];
            MemorySegment memory = MemorySegment.ofArray(bytes);
            if (group.rank() == 1) {
                memory.fill((byte) 7);
                memory = memory.asReadOnly();
            }
            group.collectives().broadcast(memory, 1);
            return bytes;
        });
        assertThat(all).containsOnly(new byte[] {7, 7, 7});
    }

    @Test
    void reportsTheLostRankOnEveryRank() {
        CountDownLatch ready = new CountDownLatch(3);
        List<String> messages = Cluster.local(3).run(group -> {
            int rank = group.rank();
            ready.countDown();
            if (rank == 1) {
                ready.await();
                // Like a killed process, without a message to the coordinator.
                group.locked(() -> group.transport().close());
                return "";
            }
            try {
                group.collectives().barrier().await(SOON);
                return "no loss";
            } catch (PeerLostException e) {
                return e.rank() + " lost";
            }
        });
        assertThat(messages).containsExactly("1 lost", "", "1 lost");
    }

    @Test
    void abortEndsAWaitImmediately() {
        CountDownLatch ended = new CountDownLatch(1);
        Cluster.local(2).run(group -> {
            if (group.rank() == 0) {
                assertThat(ended.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                return null;
            }
            Thread.ofPlatform().daemon().start(() -> {
                group.await(() -> false, Duration.ofMillis(100));
                group.abort("the run was cancelled");
            });
            // Rank 0 never calls this barrier.
            assertThatThrownBy(() -> group.collectives().barrier().await(SOON.multipliedBy(6)))
                    .isInstanceOf(DistributedException.class).hasMessageContaining("the run was cancelled");
            assertThat(group.isEnded()).isTrue();
            assertThat(group.hasQuorum()).as("although all are reachable").isFalse();
            ended.countDown();
            return null;
        });
    }

    @Test
    void strategiesRefuseAGroupOfAnotherKind() {
        Group other = (Group) Proxy.newProxyInstance(Group.class.getClassLoader(), new Class<?>[] {Group.class},
                (_, method, _) -> method.getName().equals("toString") ? "a proxy" : null);
        assertThatThrownBy(() -> Membership.of(other)).isInstanceOf(DistributedException.class)
                .hasMessageContaining("Group.join has returned, got a proxy");
    }

    @Test
    void abortEndsAJoin() {
        GroupConfig absent = GroupConfig.of(TransportConfig.of("local", Secret.random()), "local-absent")
                .joinTimeout(SOON.multipliedBy(6));
        assertThatThrownBy(() -> Group.join(absent, group -> Thread.ofPlatform().daemon().start(() -> {
            Membership.of(group).await(() -> false, Duration.ofMillis(100));
            group.abort("the run was cancelled");
        }))).isInstanceOf(DistributedException.class).hasMessageContaining("the run was cancelled");
    }

    @Test
    void closesTheTransportIfAJoinEndsWithAnError() {
        GroupConfig absent = GroupConfig.of(TransportConfig.of("local", Secret.random()), "local-absent");
        AtomicReference<Membership> made = new AtomicReference<>();
        assertThatThrownBy(() -> Group.join(absent, group -> {
            made.set(Membership.of(group));
            throw new AssertionError("of the caller");
        })).isInstanceOf(AssertionError.class).hasMessage("of the caller");
        assertThatThrownBy(() -> made.get().transport().connect("local-absent", new byte[0]))
                .isInstanceOf(TransportException.class).hasMessageContaining("closed");
    }

    /** A process may try again until the coordinator has published its address. */
    @Test
    void closesTheTransportIfThereIsNoAddressOfACoordinator(@TempDir Path directory) {
        GroupConfig absent = GroupConfig.of(TransportConfig.of("local", Secret.random()),
                "file:" + directory.resolve("none")).joinTimeout(Duration.ofMillis(1));
        Transport transport = Transport.open(absent.transport());
        assertThatThrownBy(() -> Group.join(transport, absent, true)).isInstanceOf(DistributedException.class)
                .hasMessageContaining("none");
        assertThatThrownBy(() -> transport.connect("local-absent", new byte[0]))
                .isInstanceOf(TransportException.class).hasMessageContaining("closed");
    }

    /** The second run of a process that joins later may be the third one of the others. */
    @Test
    void runsOfAProcessThatJoinsLaterAreNotComparedByTheirNumber() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, 1,
                Coordinator.OnLoss.REFORM, 1, SOON))) {
            GroupConfig membership = GroupConfig.of(config, coordinator.address());
            try (Membership first = Membership.join(membership)) {
                Strategies.begin(first, "ring");
                Strategies.begin(first, "gossip");
                try (Membership late = Membership.join(membership)) {
                    first.reform(SOON);
                    Strategies.begin(late, "gossip");
                    Strategies.begin(late, "ring");
                    // Each arrives after what its sender has sent about strategies.
                    transfer(late, first);
                    transfer(first, late);
                    assertThat(first.isEnded() || late.isEnded()).isFalse();
                }
            }
        }
    }

    private static void transfer(Group from, Group to) {
        Work received = to.collectives().receive(MemorySegment.ofArray(new byte[1]), from.rank(), 0);
        from.collectives().send(MemorySegment.ofArray(new byte[1]), to.rank(), 0).await(SOON);
        received.await(SOON);
    }

    @Test
    void continuesImmediatelyWithoutAnExcludedMember() throws Exception {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMinutes(1));
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, 2,
                Coordinator.OnLoss.REFORM, 1, SOON))) {
            GroupConfig membership = GroupConfig.of(config, coordinator.address());
            FutureTask<Group> later = new FutureTask<>(() -> Group.join(membership.preferredRank(1)));
            Thread.ofPlatform().daemon().start(later);
            try (Group zero = Group.join(membership.preferredRank(0));
                    Membership one = Membership.of(later.get(10, TimeUnit.SECONDS))) {
                coordinator.exclude(7, "no process has this preferred rank");
                coordinator.exclude(1, "its process was killed");
                assertThatThrownBy(() -> zero.collectives().barrier().await(SOON))
                        .isInstanceOf(MembershipChangedException.class);
                zero.reform(SOON);
                assertThat(zero.world()).isEqualTo(1);
                assertThat(one.await(one::isEnded, SOON)).isTrue();
                assertThat(one.failure()).hasMessageContaining("its process was killed");
            }
        }
    }

    /** A member that a later epoch lacks learns first that the others close their connections to it. */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void onlyMembersThatLeaveDoNotCountForTheQuorum(boolean leave) {
        CountDownLatch known = new CountDownLatch(1);
        List<Boolean> quorums = new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(SOON), 3,
                Coordinator.OnLoss.REFORM).run(group -> {
                    List<Long> ids = group.view().members().stream().map(Member::id).toList();
                    if (group.rank() > 0) {
                        if (!leave) {
                            group.locked(() -> group.endpoint(ids.getFirst()).close());
                            assertThat(known.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                        }
                        return true;
                    }
                    assertThat(group.awaitLocked(() -> ids.stream().skip(1).map(group::endpoint)
                            .allMatch(endpoint -> endpoint == null || endpoint.receivedGoodbye()), SOON)).isTrue();
                    boolean quorum = group.hasQuorum();
                    known.countDown();
                    return quorum;
                });
        assertThat(quorums.getFirst()).isEqualTo(leave);
    }

    /** Between the reads of the two, another epoch may start. */
    @Test
    void readsPhaseAndCollectivesTogether() {
        Cluster.local(1).run(group -> {
            FutureTask<Collectives> read = new FutureTask<>(group::collectives);
            Thread reader = Thread.ofPlatform().daemon().unstarted(read);
            group.locked(() -> {
                reader.start();
                long begin = System.nanoTime();
                while (reader.getState() != Thread.State.WAITING && !read.isDone()
                        && System.nanoTime() - begin < SOON.toNanos()) {
                    Thread.onSpinWait();
                }
                assertThat(reader.getState()).as("the group is locked").isEqualTo(Thread.State.WAITING);
            });
            assertThat(read.get(SOON.toSeconds(), TimeUnit.SECONDS)).isSameAs(group.collectives());
            return null;
        });
    }

    @Test
    void notifiesListenersOfChanges() {
        new Cluster(TransportConfig.of("local", Secret.random()), 1, Coordinator.OnLoss.REFORM).run(group -> {
            List<String> calls = new CopyOnWriteArrayList<>();
            Runnable[] end = new Runnable[1];
            end[0] = group.onChange(() -> {
                calls.add("once");
                end[0].run();
            });
            group.onChange(() -> calls.add("always"));
            for (int guests = 1; guests <= 2; guests++) {
                int changes = guests;
                try (Group guest = Group.join(group.config().preferredRank(-1))) {
                    assertThat(guest.world()).isEqualTo(2);
                    assertThat(group.await(() -> calls.size() > changes, SOON)).isTrue();
                }
            }
            assertThat(calls).startsWith("once", "always", "always").filteredOn("once"::equals).hasSize(1);
            end[0].run();
            return null;
        });
    }

    @Test
    void joinsByAFile(@TempDir Path directory) throws Exception {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        Path file = directory.resolve("coordinator");
        GroupConfig membership = GroupConfig.of(config, "file:" + file);
        FutureTask<Integer> one = inThread(() -> Group.join(membership.preferredRank(1)));
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, 2,
                Coordinator.OnLoss.END, 2, SOON))) {
            Rendezvous.publish(file, coordinator.address());
            FutureTask<Integer> zero = inThread(() -> Group.join(membership.preferredRank(0)));
            assertThat(zero.get(10, TimeUnit.SECONDS)).isEqualTo(0);
            assertThat(one.get(10, TimeUnit.SECONDS)).isEqualTo(1);
        }
        assertThatThrownBy(() -> Group.join(GroupConfig.of(config, "file:" + directory.resolve("none"))
                .joinTimeout(Duration.ofMillis(50)))).isInstanceOf(DistributedException.class)
                .hasMessageContaining("none");
    }

    /** As where two members take the place of a coordinator. */
    @Test
    void publishesAddressesAtTheSameTime(@TempDir Path directory) throws Exception {
        Path file = directory.resolve("address");
        FutureTask<Boolean> other = new FutureTask<>(() -> publish(file, "b:2"), true);
        Thread.ofPlatform().daemon().start(other);
        publish(file, "a:1");
        assertThat(other.get(10, TimeUnit.SECONDS)).isTrue();
        try (Stream<Path> files = Files.list(directory)) {
            assertThat(files).containsExactly(file);
        }
    }

    private static void publish(Path file, String address) {
        for (int i = 0; i < 300; i++) {
            Rendezvous.publish(file, address);
        }
    }

    @Test
    void refusesEndlessTimeouts() {
        Duration endless = ChronoUnit.FOREVER.getDuration();
        GroupConfig config = GroupConfig.of(TransportConfig.of("local", Secret.random()), "local-absent");
        CoordinatorConfig rules = CoordinatorConfig.of(2, Coordinator.OnLoss.END);
        for (Runnable refused : List.<Runnable>of(() -> config.timeout(endless), () -> config.joinTimeout(endless),
                () -> rules.joinTimeout(endless))) {
            assertThatThrownBy(refused::run).isInstanceOf(TensorException.class)
                    .hasMessageContaining("must be at most 31536000 s, got");
        }
        assertThat(rules.joinTimeout(Duration.ofDays(365)).joinTimeout()).hasDays(365);
    }

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "[::1]"})
    void joinsByAListOfHosts(String host) throws Exception {
        assumeTrue(NetworkInterface.getByInetAddress(InetAddress.getByName(host)) != null, "without IPv6");
        int port;
        try (DatagramSocket free = new DatagramSocket()) {
            port = free.getLocalPort();
        }
        TransportConfig config = TransportConfig.of("aeron", Secret.random());
        List<String> hosts = List.of(host + ":" + port, host);
        FutureTask<Integer> one = inThread(() -> checked(Rendezvous.join(config, hosts, 1, 1,
                Coordinator.OnLoss.END, 2)));
        FutureTask<Integer> zero = inThread(() -> checked(Rendezvous.join(config, hosts, 0, 1,
                Coordinator.OnLoss.END, 2)));
        assertThat(zero.get(30, TimeUnit.SECONDS)).isEqualTo(0);
        assertThat(one.get(30, TimeUnit.SECONDS)).isEqualTo(1);
    }

    private static Group checked(Group group) {
        assertThat(group.view().members()).extracting(Member::role).containsExactly(new Role.Worker(),
                new Role.Server(0));
        return group;
    }

    private static FutureTask<Integer> inThread(Callable<Group> join) {
        FutureTask<Integer> task = new FutureTask<>(() -> {
            try (Group group = join.call()) {
                group.collectives().barrier().await(SOON);
                return group.rank();
            }
        });
        Thread.ofPlatform().daemon().start(task);
        return task;
    }
}
