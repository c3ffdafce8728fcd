package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.NetworkInterface;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class GroupTest {
    private static final Duration SOON = Duration.ofSeconds(10);

    @Test
    void givesRanksAndExchanges() {
        List<String> said = Cluster.local(3).run(group -> {
            byte[][] all = group.collectives().exchange(("I am " + group.rank()).getBytes(StandardCharsets.UTF_8));
            StringBuilder heard = new StringBuilder();
            for (byte[] each : all) {
                heard.append(new String(each, StandardCharsets.UTF_8)).append(';');
            }
            return heard.toString();
        });
        assertThat(said).containsOnly("I am 0;I am 1;I am 2;");
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
    void namesBothCallsOfAMismatch() {
        assertThatThrownBy(() -> Cluster.local(2).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 16);
            group.collectives().allReduce(buffer, 0, group.rank() == 0 ? 100 : 200, DType.F32, ReduceOp.SUM)
                    .await(SOON);
            return null;
        })).isInstanceOf(DistributedException.class).hasMessageContaining("f32[100]").hasMessageContaining("f32[200]");
    }

    @Test
    void leavesNoByteOut() {
        List<byte[]> all = Cluster.local(2).run(group -> {
            Collectives together = group.collectives();
            byte mine = (byte) (10 + group.rank());
            byte[] bytes = {mine, mine, mine, mine, mine, mine, mine};
            assertThatThrownBy(() -> together.allReduce(MemorySegment.ofArray(bytes), DType.I32, ReduceOp.SUM))
                    .isInstanceOf(TensorException.class).hasMessageContaining("all reduce (sum)")
                    .hasMessageContaining("7 bytes").hasMessageContaining("multiple of 4")
                    .hasMessageContaining("i32");
            assertThat(bytes).containsOnly(mine);
            // Who was refused has begun nothing, and what is of bytes may have any length.
            together.allReduce(MemorySegment.ofArray(bytes).asSlice(0, 4), DType.I32, ReduceOp.SUM);
            assertThat(bytes).containsExactly(21, 21, 21, 21, mine, mine, mine);
            together.broadcast(MemorySegment.ofArray(bytes), 1);
            return bytes;
        });
        assertThat(all).containsOnly(new byte[] {21, 21, 21, 21, 11, 11, 11});
    }

    @Test
    void tellsEveryRankWhoWasLost() {
        CountDownLatch ready = new CountDownLatch(3);
        List<String> messages = Cluster.local(3).run(group -> {
            int rank = group.rank();
            ready.countDown();
            if (rank == 1) {
                ready.await();
                // As a killed process would, without a word to the coordinator.
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
    void endsAWaitAtOnceWhenItIsAborted() {
        CountDownLatch ended = new CountDownLatch(1);
        Cluster.local(2).run(group -> {
            if (group.rank() == 0) {
                assertThat(ended.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                return null;
            }
            Thread.ofPlatform().daemon().start(() -> {
                group.await(() -> false, Duration.ofMillis(100));
                group.abort("nobody needs it");
            });
            // Rank 0 never comes to this barrier.
            assertThatThrownBy(() -> group.collectives().barrier().await(SOON.multipliedBy(6)))
                    .isInstanceOf(DistributedException.class).hasMessageContaining("nobody needs it");
            assertThat(group.isEnded()).isTrue();
            ended.countDown();
            return null;
        });
    }

    @Test
    void isAbortedWhileItJoins() {
        GroupConfig nobody = GroupConfig.of(TransportConfig.of("local", Secret.random()), "local-nobody")
                .joining(SOON.multipliedBy(6));
        assertThatThrownBy(() -> Group.join(nobody, begun -> Thread.ofPlatform().daemon().start(() -> {
            begun.await(() -> false, Duration.ofMillis(100));
            begun.abort("nobody needs it");
        }))).isInstanceOf(DistributedException.class).hasMessageContaining("nobody needs it");
    }

    @Test
    void goesOnAtOnceWithoutOneThatIsExcluded() throws Exception {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofMinutes(1));
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, 2,
                Coordinator.OnLoss.REFORM, 1, SOON))) {
            GroupConfig joining = GroupConfig.of(config, coordinator.address());
            FutureTask<Group> later = new FutureTask<>(() -> Group.join(joining.wish(1)));
            Thread.ofPlatform().daemon().start(later);
            try (Group zero = Group.join(joining.wish(0)); Group one = later.get(10, TimeUnit.SECONDS)) {
                coordinator.exclude(7, "nobody has this wish");
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

    @Test
    void tellsOfChangesWhoeverWantsToKnow() {
        new Cluster(TransportConfig.of("local", Secret.random()), 1, Coordinator.OnLoss.REFORM).run(group -> {
            List<String> told = new CopyOnWriteArrayList<>();
            Runnable[] end = new Runnable[1];
            end[0] = group.onChange(() -> {
                told.add("once");
                end[0].run();
            });
            group.onChange(() -> told.add("always"));
            for (int guests = 1; guests <= 2; guests++) {
                int changes = guests;
                try (Group guest = Group.join(group.config().wish(-1))) {
                    assertThat(guest.world()).isEqualTo(2);
                    assertThat(group.await(() -> told.size() > changes, SOON)).isTrue();
                }
            }
            assertThat(told).startsWith("once", "always", "always").filteredOn("once"::equals).hasSize(1);
            end[0].run();
            return null;
        });
    }

    @Test
    void meetsByAFile(@TempDir Path directory) throws Exception {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        Path file = directory.resolve("coordinator");
        GroupConfig joining = GroupConfig.of(config, "file:" + file);
        FutureTask<Integer> one = inThread(() -> Group.join(joining.wish(1)));
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config, 2,
                Coordinator.OnLoss.END, 2, SOON))) {
            Rendezvous.publish(file, coordinator.address());
            FutureTask<Integer> zero = inThread(() -> Group.join(joining.wish(0)));
            assertThat(zero.get(10, TimeUnit.SECONDS)).isEqualTo(0);
            assertThat(one.get(10, TimeUnit.SECONDS)).isEqualTo(1);
        }
        assertThatThrownBy(() -> Group.join(GroupConfig.of(config, "file:" + directory.resolve("none"))
                .joining(Duration.ofMillis(50)))).isInstanceOf(DistributedException.class).hasMessageContaining("none");
    }

    @ParameterizedTest
    @ValueSource(strings = {"127.0.0.1", "[::1]"})
    void meetsByAListOfHosts(String host) throws Exception {
        assumeTrue(NetworkInterface.getByInetAddress(InetAddress.getByName(host)) != null, "without IPv6");
        int port;
        try (DatagramSocket free = new DatagramSocket()) {
            port = free.getLocalPort();
        }
        TransportConfig config = TransportConfig.of("aeron", Secret.random());
        List<String> hosts = List.of(host + ":" + port, host);
        FutureTask<Integer> one = inThread(() -> Rendezvous.join(config, hosts, 1, Coordinator.OnLoss.END, 2));
        FutureTask<Integer> zero = inThread(() -> Rendezvous.join(config, hosts, 0, Coordinator.OnLoss.END, 2));
        assertThat(zero.get(30, TimeUnit.SECONDS)).isEqualTo(0);
        assertThat(one.get(30, TimeUnit.SECONDS)).isEqualTo(1);
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
