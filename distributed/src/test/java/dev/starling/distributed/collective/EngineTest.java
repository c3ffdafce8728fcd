package dev.starling.distributed.collective;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Membership;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Invalid and mismatched calls, in memory that ranks map ({@code direct}) and over the network. */
@Timeout(60)
class EngineTest {
    private static final Duration SOON = Duration.ofSeconds(10);
    private static final int BYTES = 4096;

    private static Cluster cluster(int world, boolean direct) {
        return new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5))
                .sharedMemory(direct), world, Coordinator.OnLoss.END);
    }

    /** Ranks with the same letter share a host, and with it memory. */
    private static Cluster hosted(String letters) {
        return cluster(letters.length(), true).hosts(letters.split(""));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void refusesInvalidCallsAndContinues(boolean direct) {
        cluster(2, direct).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(BYTES)) {
                refuse(() -> all.reduceScatter(buffer, 0, 3, DType.F32, ReduceOp.SUM),
                        "multiple of the number of ranks, 2");
                sum(group, buffer);
                refuse(() -> all.allGather(buffer, 0, 5, DType.F32), "multiple of the number of ranks, 2");
                refuse(() -> all.broadcast(buffer, 0, 4, DType.F32, 2), "rank from 0 to 1");
                refuse(() -> all.broadcast(buffer, 0, 4, DType.F32, -1), "rank from 0 to 1");
                sum(group, buffer);
                refuse(() -> all.prepareAllReduce(buffer, 4, 4, DType.F32, ReduceOp.SUM, ""), "multiple of 64, got 4");
                refuse(() -> all.allReduce(buffer, -64, 4, DType.F32, ReduceOp.SUM), "multiple of 64, got -64");
                refuse(() -> all.allReduce(buffer, 64, BYTES / 4 - 15, DType.F32, ReduceOp.SUM), "4096 bytes");
                refuse(() -> all.allReduce(buffer, BYTES + 64, 0, DType.F32, ReduceOp.SUM), "4096 bytes");
                refuse(() -> all.allReduce(buffer, 0, Long.MAX_VALUE / 2 + 1, DType.F32, ReduceOp.SUM), "4096 bytes");
                refuse(() -> all.receive(buffer.memory().asReadOnly(), 1 - group.rank(), 0), "read-only");
                sum(group, buffer);
            }
            return null;
        });
    }

    /** That of the first thread may be the loader of a web application, which could then never be unloaded. */
    @Test
    void keepsNoClassLoaderOfTheThreadThatFirstUsesIt() {
        assertThat(Thread.currentThread().getContextClassLoader()).isNotNull();
        assertThat(Engine.OTHER_THREAD.getContextClassLoader()).isNull();
    }

    /** Else a rank could fill the memory of another one. */
    @Test
    void endsIfARankBeginsTooManyReceives() {
        List<String> ends = cluster(2, false).run(group -> {
            Collectives all = group.collectives();
            assertThatThrownBy(() -> {
                MemorySegment bytes = Arena.ofAuto().allocate(1);
                for (int tag = 0; group.rank() == 1 && tag <= 1 << 16; tag++) {
                    all.receive(bytes, 0, tag);
                }
                for (long end = System.nanoTime() + SOON.toNanos(); System.nanoTime() < end;) {
                    all.barrier().await(SOON);
                }
            }).isInstanceOf(CollectiveMismatchException.class)
                    .hasMessageContaining("rank 1 has begun more than 65536 receives of what rank 0 has not");
            return "";
        });
        assertThat(ends).hasSize(2);
    }

    /** Otherwise the caller would take elements that are not reduced for the result. */
    @Test
    void refusesToWaitForWhatHasNeverBeenStarted() {
        cluster(2, true).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(BYTES)) {
                Work work = all.prepareAllReduce(buffer, 0, 4, DType.F32, ReduceOp.SUM, "weights");
                assertThatThrownBy(() -> work.await(SOON)).isInstanceOf(DistributedException.class)
                        .hasMessageContaining("for weights has not been started; start it");
                work.run(SOON);
                work.await(SOON);
                sum(group, buffer);
            }
            return null;
        });
    }

    /** In memory that ranks map, a sum would contain the elements of the rank that has left. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void refusesBuffersOfOtherGroupsAndEpochs(boolean direct) {
        CountDownLatch refused = new CountDownLatch(3);
        CountDownLatch checked = new CountDownLatch(2);
        new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5))
                .sharedMemory(direct), 3, Coordinator.OnLoss.REFORM).run(group -> {
                    SymmetricBuffer buffer = group.collectives().symmetric(BYTES);
                    try (Group part = group.split(_ -> "all")) {
                        refuse(() -> part.collectives().allReduce(buffer, 0, 1, DType.I32, ReduceOp.SUM),
                                "belongs to another group or sub-group");
                    }
                    // In epoch 2 another member has rank 0.
                    int rank = group.rank();
                    refused.countDown();
                    if (rank == 0) {
                        assertThat(refused.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                        group.locked(() -> group.transport().close());
                        return null;
                    }
                    assertThat(group.awaitLocked(() -> group.failure() == null && group.epoch() == 2, SOON)).isTrue();
                    assertThatThrownBy(() -> group.collectives().allReduce(buffer, 0, 1, DType.I32, ReduceOp.SUM))
                            .isInstanceOf(MembershipChangedException.class)
                            .hasMessageContaining("the buffer belongs to epoch 1, and the collective to epoch 2");
                    buffer.close();
                    // No rank leaves before both have checked, or the epoch would end.
                    checked.countDown();
                    assertThat(checked.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                    return null;
                });
    }

    /** Elements are accessed by address, so access to released memory would end the JVM. */
    @ParameterizedTest
    @CsvSource({"1000, false", "1000, true", "2, true"})
    void endsACollectiveWhoseBufferIsClosed(long count, boolean direct) {
        CountDownLatch summed = new CountDownLatch(2);
        cluster(2, direct).run(group -> {
            Collectives all = group.collectives();
            SymmetricBuffer buffer = all.symmetric(BYTES);
            Work work = all.prepareAllReduce(buffer, 0, count, DType.F32, ReduceOp.SUM, "");
            work.run(SOON);
            summed.countDown();
            assertThat(summed.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
            assertThatThrownBy(() -> {
                if (group.rank() == 0) {
                    buffer.close();
                }
                work.run(SOON);
            }).isInstanceOf(DistributedException.class).hasMessageContaining("rank 0 failed")
                    .hasMessageContaining("in buffer 1 at byte 0: the buffer is closed");
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void endsACollectiveWhoseBufferIsClosedMeanwhile(boolean direct) {
        CountDownLatch summed = new CountDownLatch(2);
        CountDownLatch closed = new CountDownLatch(1);
        cluster(2, direct).run(group -> {
            Collectives all = group.collectives();
            SymmetricBuffer buffer = all.symmetric(BYTES);
            Work work = all.prepareAllReduce(buffer, 0, 1000, DType.F32, ReduceOp.SUM, "");
            work.run(SOON);
            summed.countDown();
            assertThat(summed.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
            if (group.rank() == 1) {
                assertThat(closed.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
            }
            assertThatThrownBy(() -> {
                if (group.rank() == 0) {
                    group.locked(() -> {
                        work.start();
                        group.doWork();
                        buffer.close();
                    });
                    closed.countDown();
                }
                // Rank 1 may have all elements of rank 0.
                work.run(SOON);
                all.barrier().await(SOON);
            }).isInstanceOf(DistributedException.class).hasMessageContaining("the buffer of all reduce")
                    .hasMessageContaining("was closed while that was in progress");
            return null;
        });
    }

    /** The pieces in which such memory is handled are equal here, or one rank has none. */
    @ParameterizedTest
    @CsvSource({"6291456, 4194304", "0, 16", "16, 0"})
    void detectsUnregisteredMemoryOfAnotherSize(long first, long second) {
        cluster(2, true).run(group -> {
            MemorySegment elements = Arena.ofAuto().allocate(group.rank() == 0 ? first : second);
            assertThatThrownBy(() -> {
                group.collectives().allReduce(elements, DType.F32, ReduceOp.SUM);
                group.collectives().barrier().await(SOON);
            }).isInstanceOf(CollectiveMismatchException.class).hasMessageContaining(first + " in unregistered memory")
                    .hasMessageContaining(second + " in unregistered memory");
            return null;
        });
    }

    private static void refuse(ThrowingCallable call, String why) {
        assertThatThrownBy(call).isInstanceOf(TensorException.class).hasMessageContaining(why);
    }

    private static void sum(Membership group, SymmetricBuffer buffer) {
        buffer.memory().setAtIndex(ValueLayout.JAVA_INT, 0, group.rank() + 1);
        Work work = group.collectives().prepareAllReduce(buffer, 0, BYTES / 4, DType.I32, ReduceOp.SUM, "");
        work.start();
        work.await(SOON);
        work.run(SOON);
        assertThat(buffer.memory().getAtIndex(ValueLayout.JAVA_INT, 0)).isEqualTo(6);
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void beginsInOrderWhenElementsAreReady(boolean direct) {
        cluster(3, direct).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(2 * BYTES)) {
                AtomicBoolean there = new AtomicBoolean();
                Work late = all.prepareAllReduce(buffer, 0, BYTES / 4, DType.I32, ReduceOp.SUM, "", there::get);
                Work next = all.prepareAllReduce(buffer, BYTES, BYTES / 4, DType.I32, ReduceOp.SUM, "");
                for (int round = 1; round <= 20; round++) {
                    there.set(false);
                    buffer.memory().asSlice(0, BYTES).fill((byte) -1);
                    late.start();
                    next.start();
                    group.await(() -> false, Duration.ofMillis(group.rank()));
                    assertThat(late.isDone() || next.isDone()).isFalse();
                    for (int i = 0; i < BYTES / 4; i++) {
                        buffer.memory().setAtIndex(ValueLayout.JAVA_INT, i, round + i + group.rank());
                    }
                    there.set(true);
                    next.await(SOON);
                    assertThat(late.isDone()).isTrue();
                    for (int i = 0; i < BYTES / 4; i++) {
                        assertThat(buffer.memory().getAtIndex(ValueLayout.JAVA_INT, i)).isEqualTo(3 * (round + i) + 3);
                    }
                }
            }
            return null;
        });
    }

    @Test
    void notifiesAllRanksOfAFailure() {
        CountDownLatch notified = new CountDownLatch(3);
        List<DistributedException> ends = cluster(3, false).run(group -> {
            // A slow rank may receive the failure before it has its buffer.
            try {
                SymmetricBuffer buffer = group.collectives().symmetric(1 << 20);
                Work work = group.collectives().prepareAllReduce(buffer, 0, 1 << 18, DType.F32, ReduceOp.SUM,
                        "gradients");
                if (group.rank() == 1) {
                    // This is invalid: the rank cannot send from a closed arena.
                    buffer.close();
                }
                work.start();
                work.await(SOON);
                return null;
            } catch (DistributedException e) {
                // No rank leaves before all have received the failure, or it would count as lost.
                notified.countDown();
                group.await(() -> notified.getCount() == 0, SOON);
                return e;
            }
        });
        assertThat(ends).allSatisfy(end -> assertThat(end.getMessage()).containsOnlyOnce("rank 1 failed")
                .contains("for gradients", "closed"));
        assertThat(ends.get(1)).hasCauseInstanceOf(TransportException.class);
    }

    @Test
    void notifiesAllRanksOfAReceiveIntoClosedMemory() {
        CountDownLatch notified = new CountDownLatch(2);
        List<String> ends = cluster(2, false).run(group -> {
            Collectives all = group.collectives();
            Arena arena = Arena.ofShared();
            MemorySegment memory = arena.allocate(64);
            try {
                if (group.rank() == 0) {
                    Work receive = all.receive(memory, 1, 3);
                    // Rank 1 knows of the receive after a barrier.
                    all.barrier().await(SOON);
                    // This is invalid: the memory must stay open until the bytes have arrived.
                    arena.close();
                    all.barrier().await(SOON);
                    receive.await(SOON);
                } else {
                    all.barrier().await(SOON);
                    all.barrier().await(SOON);
                    all.send(memory, 0, 3).await(SOON);
                    all.barrier().await(SOON);
                }
                return "nothing noticed";
            } catch (DistributedException e) {
                // No rank leaves before all have received the failure, or it would count as lost.
                notified.countDown();
                group.await(() -> notified.getCount() == 0, SOON);
                return e.getMessage();
            }
        });
        assertThat(ends).allSatisfy(end -> assertThat(end).contains("rank 0 failed in a transfer from rank 1"));
    }

    @ParameterizedTest
    @CsvSource({"aaa, 100", "aaa, 300000", "abc, 100", "abc, 65536", "abc, 300000", "aab, 300000", "ab, 300000"})
    void namesBuffersThatRanksUseInDifferentOrders(String hosts, int count) {
        CountDownLatch notified = new CountDownLatch(hosts.length());
        List<String> ends = hosted(hosts).run(group -> {
            Collectives all = group.collectives();
            return mismatch(group, notified, () -> {
                SymmetricBuffer[] buffers = {all.symmetric(4L * count), all.symmetric(4L * count)};
                int first = group.rank() == 1 ? 1 : 0;
                Work one = all.allReduce(buffers[first], 0, count, DType.F32, ReduceOp.SUM);
                Work other = all.allReduce(buffers[1 - first], 0, count, DType.F32, ReduceOp.SUM);
                one.await(SOON);
                other.await(SOON);
            });
        });
        assertThat(ends).allSatisfy(end -> assertThat(end).contains("[" + count + "] in buffer 1 at byte 0")
                .contains("[" + count + "] in buffer 2 at byte 0"));
    }

    @ParameterizedTest
    @CsvSource({"aaa, 100", "aaa, 300000", "abc, 100", "abc, 65536", "abc, 300000", "aab, 300000", "ab, 300000"})
    void namesOffsetsThatDiffer(String hosts, int count) {
        CountDownLatch notified = new CountDownLatch(hosts.length());
        List<String> ends = hosted(hosts).run(group -> {
            Collectives all = group.collectives();
            return mismatch(group, notified, () -> {
                SymmetricBuffer buffer = all.symmetric(4L * count + 64);
                all.allReduce(buffer, group.rank() == 1 ? 64 : 0, count, DType.F32, ReduceOp.SUM).await(SOON);
            });
        });
        assertThat(ends).allSatisfy(end -> assertThat(end).contains("[" + count + "] in buffer 1 at byte 0")
                .contains("[" + count + "] in buffer 1 at byte 64"));
    }

    /** Returns the rank's message of a mismatch, which may occur while it registers its buffers. */
    private static String mismatch(Membership group, CountDownLatch notified, Runnable calls) {
        try {
            calls.run();
            return "nothing noticed";
        } catch (CollectiveMismatchException e) {
            // No rank leaves before all have received the mismatch, or it would count as lost.
            notified.countDown();
            group.await(() -> notified.getCount() == 0, SOON);
            return e.getMessage();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void namesSizesThatDifferAndContinues(boolean direct) {
        cluster(3, direct).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer before = all.symmetric(BYTES)) {
                int other = group.rank() == 2 ? 0 : 2;
                assertThatThrownBy(() -> all.symmetric(group.rank() == 2 ? 8192 : BYTES))
                        .isInstanceOf(CollectiveMismatchException.class)
                        .hasMessageContaining("rank " + group.rank() + " registers " + (other == 0 ? 8192 : BYTES))
                        .hasMessageContaining("rank " + other + " registers " + (other == 0 ? BYTES : 8192));
                all.barrier().await(SOON);
                try (SymmetricBuffer after = all.symmetric(BYTES)) {
                    for (SymmetricBuffer buffer : List.of(before, after)) {
                        all.broadcast(buffer, 0, 1, DType.I32, 0).await(SOON);
                    }
                }
            }
            return null;
        });
    }
}
