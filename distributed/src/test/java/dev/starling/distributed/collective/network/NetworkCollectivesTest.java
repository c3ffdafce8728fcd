package dev.starling.distributed.collective.network;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.starling.distributed.Cluster;
import dev.starling.distributed.CollectiveMismatchException;
import dev.starling.distributed.Collectives;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.MembershipChangedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.distributed.collective.reduce.ReduceKernels;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.math.BigInteger;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NetworkCollectivesTest {
    private static final Duration SOON = Duration.ofSeconds(20);
    private static final long OFFSET = 192;
    private static final int WORKS = 400;
    /** Number of kinds that {@link #begin} distinguishes. */
    private static final int KINDS = 7;
    /** Three works on two ranks, less than an object in each. */
    private static final long LESS_THAN_AN_OBJECT_EACH = 2 * 3 * WORKS * 16;
    /** 0, 1, odd numbers, and the limits of the gather, of halving and of the ring's scratch memory. */
    private static final int[] COUNTS = {0, 1, 7, 1024, 4096, 4097, HalvingDoubling.MAX_BYTES / 4,
        HalvingDoubling.MAX_BYTES / 4 + 1, 32_768 * 3 + 5,
        (int) (Ring.SCRATCH_BYTES / 4) + 33};

    private static Cluster cluster(int world) {
        return new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5))
                .sharedMemory(false), world, Coordinator.OnLoss.END);
    }

    /** Ranks with the same letter share a host. */
    private static Cluster hosted(String letters) {
        return new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5)),
                letters.length(), Coordinator.OnLoss.END).hosts(letters.split(""));
    }

    /** Integers whose sums and products, in any order, are exact in each type. */
    private static double input(int rank, long i, long round) {
        return (i * 7 + rank * 3 + round) % 5 - 1;
    }

    private static double expected(ReduceOp op, int world, long i, long round) {
        double result = input(0, i, round);
        for (int rank = 1; rank < world; rank++) {
            double next = input(rank, i, round);
            result = switch (op) {
                case SUM, AVERAGE -> result + next;
                case PRODUCT -> result * next;
                case MIN -> Math.min(result, next);
                case MAX -> Math.max(result, next);
            };
        }
        return result;
    }

    private static double get(MemorySegment memory, DType type, long i) {
        long at = OFFSET + i * type.bytes();
        return switch (type) {
            case F32 -> memory.get(ValueLayout.JAVA_FLOAT, at);
            case F64 -> memory.get(ValueLayout.JAVA_DOUBLE, at);
            case BF16 -> Float.intBitsToFloat(memory.get(ValueLayout.JAVA_SHORT, at) << 16);
            case F16 -> Float.float16ToFloat(memory.get(ValueLayout.JAVA_SHORT, at));
            case I32 -> memory.get(ValueLayout.JAVA_INT, at);
            case I64 -> memory.get(ValueLayout.JAVA_LONG, at);
            case I8, U8, BOOL -> memory.get(ValueLayout.JAVA_BYTE, at);
        };
    }

    private static void set(MemorySegment memory, DType type, long i, double value) {
        long at = OFFSET + i * type.bytes();
        switch (type) {
            case F32 -> memory.set(ValueLayout.JAVA_FLOAT, at, (float) value);
            case F64 -> memory.set(ValueLayout.JAVA_DOUBLE, at, value);
            case BF16 -> memory.set(ValueLayout.JAVA_SHORT, at, (short) (Float.floatToIntBits((float) value) >> 16));
            case F16 -> memory.set(ValueLayout.JAVA_SHORT, at, Float.floatToFloat16((float) value));
            case I32 -> memory.set(ValueLayout.JAVA_INT, at, (int) value);
            case I64 -> memory.set(ValueLayout.JAVA_LONG, at, (long) value);
            case I8, U8, BOOL -> memory.set(ValueLayout.JAVA_BYTE, at, (byte) value);
        }
    }

    private static void fill(Group group, MemorySegment memory, DType type, long count, long round) {
        for (long i = 0; i < count; i++) {
            set(memory, type, i, input(group.rank(), i, round));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 7})
    void reducesAllTypesInAllWays(int world) {
        cluster(world).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(8L * 40_000 + OFFSET)) {
                long round = 0;
                for (DType type : DType.values()) {
                    for (ReduceOp op : ReduceOp.values()) {
                        for (int count : new int[] {0, 1, 13, 1_000, 40_000}) {
                            if (ReduceKernels.supports(type)) {
                                checkAllReduce(group, buffer, type, op, count, round++);
                            }
                        }
                    }
                }
            }
            return null;
        });
    }

    private static void checkAllReduce(Group group, SymmetricBuffer buffer, DType type, ReduceOp op, int count,
            long round) {
        fill(group, buffer.memory(), type, count, round);
        group.collectives().allReduce(buffer, OFFSET, count, type, op).await(SOON);
        for (long i = 0; i < count; i++) {
            double expected = expected(op, group.world(), i, round);
            if (op == ReduceOp.AVERAGE) {
                boolean whole = type == DType.I32 || type == DType.I64;
                expected = whole ? (long) expected / group.world() : expected / group.world();
                double close = type == DType.BF16 ? 0x1p-7 : type == DType.F16 ? 0x1p-10 : 1e-6;
                if (Math.abs(get(buffer.memory(), type, i) - expected) > close * Math.abs(expected)) {
                    throw new AssertionError(type + " " + op + " [" + i + "]: " + get(buffer.memory(), type, i)
                            + " instead of " + expected);
                }
            } else if (get(buffer.memory(), type, i) != expected) {
                throw new AssertionError(type + " " + op + " of " + count + " at " + i + ": "
                        + get(buffer.memory(), type, i) + " instead of " + expected);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 7})
    void runsAllKindsInAllLengths(int world) {
        runAllKinds(cluster(world), world, COUNTS);
    }

    @ParameterizedTest
    @ValueSource(strings = {"aab", "aabb", "abab", "aaab", "abcab", "abc"})
    void runsAllKindsByHost(String hosts) {
        runAllKinds(hosted(hosts), hosts.length(), COUNTS);
    }

    /** Runs all kinds of collectives; the last of {@code counts} is the largest. */
    static void runAllKinds(Cluster cluster, int world, int... counts) {
        int maxCount = (counts[counts.length - 1] + world) / world * world;
        cluster.run(group -> {
            int rank = group.rank();
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(4L * maxCount + OFFSET)) {
                MemorySegment memory = buffer.memory();
                long round = 0;
                for (int length : counts) {
                    int count = length / world * world;
                    round++;
                    checkAllReduce(group, buffer, DType.F32, ReduceOp.SUM, length, round);
                    checkAllReduce(group, buffer, DType.F32, ReduceOp.AVERAGE, length, round + 1);

                    fill(group, memory, DType.F32, count, round);
                    all.reduceScatter(buffer, OFFSET, count, DType.F32, ReduceOp.SUM).await(SOON);
                    for (long i = 0; i < count; i++) {
                        boolean own = i / (count / world) == rank;
                        check(memory, i, own ? expected(ReduceOp.SUM, world, i, round) : input(rank, i, round));
                    }

                    fill(group, memory, DType.F32, count, round);
                    all.allGather(buffer, OFFSET, count, DType.F32).await(SOON);
                    for (long i = 0; i < count; i++) {
                        check(memory, i, input((int) (i / (count / world)), i, round));
                    }

                    int root = (int) (round % world);
                    fill(group, memory, DType.F32, length, round);
                    all.broadcast(buffer, OFFSET, length, DType.F32, root).await(SOON);
                    for (long i = 0; i < length; i++) {
                        check(memory, i, input(root, i, round));
                    }
                    all.barrier().await(SOON);
                }
            }
            return null;
        });
    }

    private static void check(MemorySegment memory, long i, double expected) {
        if (get(memory, DType.F32, i) != expected) {
            throw new AssertionError("[" + i + "]: " + get(memory, DType.F32, i) + " instead of " + expected);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"ab", "abc", "abcde", "aabb", "aabcc"})
    void givesTheSameBitsToAll(String hosts) {
        for (int count : new int[] {500, 30_001, 300_001}) {
            List<Integer> hashes = hosted(hosts).run(group -> {
                SplittableRandom random = new SplittableRandom(group.rank());
                int hash = 0;
                for (int run = 0; run < 2; run++) {
                    try (SymmetricBuffer buffer = group.collectives().symmetric(4L * count)) {
                        MemorySegment memory = buffer.memory();
                        SplittableRandom same = random.split();
                        random = new SplittableRandom(group.rank());
                        for (int i = 0; i < count; i++) {
                            memory.setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) (same.nextDouble() - 0.5));
                        }
                        group.collectives().allReduce(buffer, 0, count, DType.F32, ReduceOp.AVERAGE).await(SOON);
                        int now = Arrays.hashCode(memory.asSlice(0, 4L * count).toArray(ValueLayout.JAVA_INT));
                        assertThat(run == 0 ? now : hash).as("of a second run").isEqualTo(now);
                        hash = now;
                        group.collectives().barrier().await(SOON);
                    }
                }
                return hash;
            });
            assertThat(hashes.stream().distinct()).hasSize(1);
        }
    }

    /** One rank has a large number; small addends vanish if partial sums are rounded. */
    private static float uneven(DType type, int rank, long i, int world) {
        return rank == i % world ? type == DType.F16 ? 2048 : 256 : 1 + i % 3;
    }

    @ParameterizedTest
    @ValueSource(strings = {"ab", "abc", "abcd", "abcdefg", "aabb", "aabbc"})
    void roundsSumsOfShortFloatsOnce(String hosts) {
        int world = hosts.length();
        roundOnce(hosted(hosts), world, 10 * world, 16_000 * world, 900_001 / world * world);
    }

    /** Sums 16-bit floats; {@code counts} are multiples of the world size, the last one is the largest. */
    static void roundOnce(Cluster cluster, int world, int... counts) {
        cluster.run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(2L * counts[counts.length - 1] + OFFSET)) {
                for (DType type : new DType[] {DType.F16, DType.BF16}) {
                    for (int count : counts) {
                        for (boolean scatter : new boolean[] {false, true}) {
                            for (long i = 0; i < count; i++) {
                                set(buffer.memory(), type, i, uneven(type, group.rank(), i, world));
                            }
                            (scatter ? all.reduceScatter(buffer, OFFSET, count, type, ReduceOp.SUM)
                                    : all.allReduce(buffer, OFFSET, count, type, ReduceOp.SUM)).await(SOON);
                            int own = scatter ? count / world : count;
                            int from = scatter ? own * group.rank() : 0;
                            checkRoundedOnce(buffer.memory(), type, from, from + own, world);
                            all.barrier().await(SOON);
                        }
                    }
                }
            }
            return null;
        });
    }

    private static void checkRoundedOnce(MemorySegment memory, DType type, long from, long to, int world) {
        for (long i = from; i < to; i++) {
            float sum = 0;
            for (int rank = 0; rank < world; rank++) {
                sum += uneven(type, rank, i, world);
            }
            int bits = Float.floatToIntBits(sum);
            float right = type == DType.F16 ? Float.float16ToFloat(Float.floatToFloat16(sum))
                    : Float.intBitsToFloat(bits + 0x7fff + (bits >>> 16 & 1) & 0xffff0000);
            if (get(memory, type, i) != right) {
                throw new AssertionError(type + " [" + i + "]: " + get(memory, type, i) + " instead of " + right);
            }
        }
    }

    private static int large(int rank, long i) {
        return i % 2 == 0 ? Integer.MAX_VALUE - rank : Integer.MIN_VALUE + rank;
    }

    /** The sum of all ranks exceeds 32 bits, and so do partial sums. */
    @ParameterizedTest
    @ValueSource(strings = {"ab", "abc", "abcd", "abcde", "aabb"})
    void averagesLargeIntegers(String hosts) {
        int world = hosts.length();
        hosted(hosts).run(group -> {
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(4L * 100_001 * world)) {
                MemorySegment memory = buffer.memory();
                for (int count : new int[] {10 * world, 10_001 * world, 100_001 * world}) {
                    for (boolean scatter : new boolean[] {false, true}) {
                        for (int i = 0; i < count; i++) {
                            memory.setAtIndex(ValueLayout.JAVA_INT, i, large(group.rank(), i));
                        }
                        (scatter ? all.reduceScatter(buffer, 0, count, DType.I32, ReduceOp.AVERAGE)
                                : all.allReduce(buffer, 0, count, DType.I32, ReduceOp.AVERAGE)).await(SOON);
                        int own = scatter ? count / world : count;
                        int from = scatter ? own * group.rank() : 0;
                        for (int i = from; i < from + own; i++) {
                            long sum = 0;
                            for (int rank = 0; rank < world; rank++) {
                                sum += large(rank, i);
                            }
                            if (memory.getAtIndex(ValueLayout.JAVA_INT, i) != sum / world) {
                                throw new AssertionError("[" + i + "] of " + count + ": "
                                        + memory.getAtIndex(ValueLayout.JAVA_INT, i) + " instead of " + sum / world);
                            }
                        }
                        all.barrier().await(SOON);
                    }
                }
            }
            return null;
        });
    }

    @Test
    void runsManyCollectives() {
        cluster(3).run(group -> {
            try (SymmetricBuffer buffer = group.collectives().symmetric(4096 * 8)) {
                MemorySegment memory = buffer.memory();
                Work small = group.collectives().prepareAllReduce(buffer, 0, 3, DType.I64, ReduceOp.SUM, "small");
                Work large = group.collectives().prepareAllReduce(buffer, 0, 3000, DType.I64, ReduceOp.SUM, "large");
                memory.setAtIndex(ValueLayout.JAVA_LONG, 1, group.rank() + 1);
                memory.setAtIndex(ValueLayout.JAVA_LONG, 2000, group.rank() + 1);
                for (int i = 0; i < 5_000; i++) {
                    small.start();
                    large.start();
                    small.await(SOON);
                    large.await(SOON);
                }
                BigInteger low = BigInteger.valueOf(6).multiply(BigInteger.valueOf(3).pow(9_999));
                assertThat(memory.getAtIndex(ValueLayout.JAVA_LONG, 1)).isEqualTo(low.longValue());
                BigInteger high = BigInteger.valueOf(6).multiply(BigInteger.valueOf(3).pow(4_999));
                assertThat(memory.getAtIndex(ValueLayout.JAVA_LONG, 2000)).isEqualTo(high.longValue());
            }
            return null;
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"abcd", "aabb"})
    void namesBothCallsOfAMismatchOnAllRanks(String hosts) {
        CountDownLatch all = new CountDownLatch(hosts.length());
        List<String> messages = hosted(hosts).run(group -> {
            try {
                SymmetricBuffer buffer = group.collectives().symmetric(1 << 16);
                if (group.rank() == 2) {
                    group.collectives().broadcast(buffer, 0, 16_384, DType.F32, 1).await(SOON);
                } else {
                    group.collectives().allReduce(buffer, 0, 16_384, DType.F32, ReduceOp.SUM).await(SOON);
                }
                return "no mismatch";
            } catch (CollectiveMismatchException e) {
                // No rank leaves before all have received the mismatch, or it would count as lost.
                all.countDown();
                group.await(() -> all.getCount() == 0, SOON);
                return e.getMessage();
            }
        });
        assertThat(messages).allMatch(m -> m.contains("all reduce (sum) of f32[16384]")
                && m.contains("broadcast of f32[16384] from rank 1"));
    }

    @Test
    void detectsThatSizesDiffer() {
        for (int[] counts : new int[][] {{3, 4}, {1_000, 2_000}, {500, 500_000}}) {
            assertThatThrownBy(() -> cluster(2).run(group -> {
                SymmetricBuffer buffer = group.collectives().symmetric(4 << 20);
                group.collectives().allReduce(buffer, 0, counts[group.rank()], DType.F32, ReduceOp.SUM).await(SOON);
                return null;
            })).isInstanceOf(CollectiveMismatchException.class).hasMessageContaining("f32[" + counts[0] + "]")
                    .hasMessageContaining("f32[" + counts[1] + "]");
        }
    }

    @Test
    void namesARankThatHasNotArrived() {
        assertThatThrownBy(() -> cluster(3).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 20);
            if (group.rank() == 1) {
                group.await(() -> group.failure() != null, Duration.ofSeconds(3));
                return null;
            }
            Work work = group.collectives().allReduce(buffer, 0, 1 << 18, DType.F32, ReduceOp.SUM);
            work.await(Duration.ofMillis(group.rank() == 2 ? 500 : 10_000));
            return null;
        })).isInstanceOf(DistributedException.class).hasMessageContaining("rank 1 has not arrived")
                .hasMessageContaining("all reduce (sum) of f32[262144]");
    }

    @Test
    void sendsAndReceives() {
        for (int world : new int[] {2, 3}) {
            cluster(world).run(group -> {
                int rank = group.rank();
                int to = (rank + 1) % world;
                int from = (rank + world - 1) % world;
                Collectives all = group.collectives();
                for (int size : new int[] {0, 1, 1_000, 24 << 10, 1_000_003}) {
                    MemorySegment a = MemorySegment.ofArray(new byte[size]).fill((byte) (rank + 1));
                    MemorySegment b = Arena.ofAuto().allocate(Math.max(1, size)).asSlice(0, size).fill((byte) 77);
                    MemorySegment first = MemorySegment.ofArray(new byte[size]);
                    MemorySegment second = Arena.ofAuto().allocate(Math.max(1, size)).asSlice(0, size);
                    MemorySegment other = MemorySegment.ofArray(new byte[4]);
                    Work[] works = {all.receive(other, from, 9), all.send(a, to, 5), all.send(b, to, 5),
                        all.receive(first, from, 5), all.receive(second, from, 5),
                        all.send(MemorySegment.ofArray(new byte[] {1, 2, 3, (byte) rank}), to, 9), all.barrier()};
                    for (Work work : works) {
                        work.await(SOON);
                    }
                    assertThat(first.mismatch(MemorySegment.ofArray(new byte[size]).fill((byte) (from + 1))))
                            .isEqualTo(-1);
                    assertThat(second.mismatch(b)).isEqualTo(-1);
                    assertThat(other.get(ValueLayout.JAVA_BYTE, 3)).isEqualTo((byte) from);
                }
                return null;
            });
        }
    }

    @Test
    void detectsThatTransfersDiffer() {
        CountDownLatch both = new CountDownLatch(2);
        List<String> messages = cluster(2).run(group -> {
            MemorySegment memory = MemorySegment.ofArray(new byte[10 + group.rank()]);
            Work work = group.rank() == 0 ? group.collectives().send(memory, 1, 3)
                    : group.collectives().receive(memory, 0, 3);
            try {
                work.await(SOON);
                return "no mismatch";
            } catch (CollectiveMismatchException e) {
                both.countDown();
                group.await(() -> both.getCount() == 0, SOON);
                return e.getMessage();
            }
        });
        assertThat(messages).allMatch(m -> m.contains("sending 10 bytes to rank 1 with tag 3")
                && m.contains("receiving 11"));
    }

    /** The rank that gives up first describes what the other one does. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void namesTheTagsThatDiffer(int impatient) {
        CountDownLatch both = new CountDownLatch(2);
        List<String> messages = cluster(2).run(group -> {
            MemorySegment memory = MemorySegment.ofArray(new byte[10]);
            Work work = group.rank() == 0 ? group.collectives().send(memory, 1, 3)
                    : group.collectives().receive(memory, 0, 4);
            try {
                work.await(group.rank() == impatient ? Duration.ofMillis(300) : SOON);
                return "no mismatch";
            } catch (DistributedException e) {
                both.countDown();
                group.await(() -> both.getCount() == 0, SOON);
                return e.getMessage();
            }
        });
        assertThat(messages).allMatch(m -> m.contains(impatient == 0 ? "waited 300 ms for sending 10 bytes to rank 1 "
                + "with tag 3; rank 1 does not receive with this tag, but waits for bytes with the tags [4]"
                : "waited 300 ms for receiving 10 bytes from rank 0 with tag 4; rank 0 has sent nothing with "
                + "this tag"));
    }

    @Test
    void namesARankThatStopsInTheMiddle() throws Exception {
        // Several run at a time, because they only wait for the liveness timeout.
        try (ExecutorService some = Executors.newFixedThreadPool(KINDS / 2 + 1)) {
            List<Future<?>> all = new ArrayList<>();
            for (int kind = 0; kind < KINDS; kind++) {
                int each = kind;
                all.add(some.submit(() -> nameARankThatStopsInTheMiddle(each)));
            }
            for (Future<?> each : all) {
                each.get();
            }
        }
    }

    private static void nameARankThatStopsInTheMiddle(int kind) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(2));
        CountDownLatch notified = new CountDownLatch(2);
        Cluster cluster = new Cluster(config.sharedMemory(kind == 5), 3, Coordinator.OnLoss.END);
        List<String> ends = (kind == 5 ? cluster.hosts("a", "a", "b") : cluster).run(group -> {
            int count = 3 << 18;
            SymmetricBuffer buffer = group.collectives().symmetric(4L * count);
            for (int i = 0; ; i++) {
                if (group.rank() == 1 && i == 5) {
                    Work work = begin(group, buffer, kind, count);
                    // Like a stopped process: in the middle of a collective, for longer than the liveness timeout.
                    group.await(() -> System.nanoTime() % 7 == 0, Duration.ofMillis(1));
                    group.locked(() -> await(notified));
                    return work.isDone() ? "done" : "stopped";
                }
                try {
                    begin(group, buffer, kind, count).await(SOON);
                } catch (PeerLostException e) {
                    notified.countDown();
                    return e.rank() + " lost";
                }
            }
        });
        assertThat(ends.get(0)).as("kind %d", kind).isEqualTo("1 lost");
        assertThat(ends.get(2)).as("kind %d", kind).isEqualTo("1 lost");
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(20, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private static Work begin(Group group, SymmetricBuffer buffer, int kind, int count) {
        Collectives all = group.collectives();
        return switch (kind) {
            case 0, 5 -> all.allReduce(buffer, 0, count, DType.F32, ReduceOp.SUM);
            case 6 -> all.allReduce(buffer, 0, HalvingDoubling.MAX_BYTES / 4, DType.F32, ReduceOp.SUM);
            case 1 -> all.reduceScatter(buffer, 0, count, DType.F32, ReduceOp.SUM);
            case 2 -> all.allGather(buffer, 0, count, DType.F32);
            case 3 -> all.broadcast(buffer, 0, count, DType.F32, 0);
            default -> all.barrier();
        };
    }

    @Test
    void notifiesAllOfANeededRankThatLeft() {
        CountDownLatch notified = new CountDownLatch(3);
        List<String> ends = cluster(4).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 22);
            if (group.rank() == 1) {
                group.collectives().barrier().await(SOON);
                return "left";
            }
            try {
                group.collectives().barrier().await(SOON);
                group.collectives().allReduce(buffer, 0, 1 << 20, DType.F32, ReduceOp.SUM).await(SOON);
                return "done";
            } catch (PeerLostException e) {
                notified.countDown();
                group.await(() -> notified.getCount() == 0, SOON);
                return e.rank() + " lost";
            }
        });
        assertThat(ends).containsExactly("1 lost", "left", "1 lost", "1 lost");
    }

    @Test
    void reducesInTheEpochAfterALoss() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(2))
                .sharedMemory(false);
        CountDownLatch notified = new CountDownLatch(2);
        List<Float> ends = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            int count = 3 << 18;
            SymmetricBuffer buffer = group.collectives().symmetric(4L * count);
            for (int i = 0; ; i++) {
                Work work = group.collectives().allReduce(buffer, 0, count, DType.F32, ReduceOp.SUM);
                if (group.rank() == 1 && i == 3) {
                    group.locked(() -> await(notified));
                    return 0f;
                }
                try {
                    work.await(SOON);
                } catch (PeerLostException | MembershipChangedException e) {
                    notified.countDown();
                    break;
                }
            }
            group.reform(SOON);
            buffer.close();
            SymmetricBuffer next = group.collectives().symmetric(4L * count);
            float own = group.rank() + 1;
            for (int i = 0; i < count; i++) {
                next.memory().setAtIndex(ValueLayout.JAVA_FLOAT, i, own);
            }
            group.collectives().allReduce(next, 0, count, DType.F32, ReduceOp.SUM).await(SOON);
            float last = next.memory().getAtIndex(ValueLayout.JAVA_FLOAT, count - 1);
            group.collectives().barrier().await(SOON);
            return last;
        });
        assertThat(ends).containsExactly(3f, 0f, 3f);
    }

    @Test
    void allocatesNothing() {
        Cluster.awaitEarlier();
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        AtomicLong minAllocated = new AtomicLong(Long.MAX_VALUE);
        cluster(2).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 20);
            MemorySegment bytes = buffer.memory().asSlice(0, 100_000);
            Collectives all = group.collectives();
            Work[] works = {all.prepareAllReduce(buffer, 0, 100, DType.F32, ReduceOp.SUM, "small"),
                all.prepareAllReduce(buffer, 0, 1 << 18, DType.F32, ReduceOp.AVERAGE, "large"),
                group.rank() == 0 ? all.prepareSend(bytes, 1, 0) : all.prepareReceive(bytes, 0, 0)};
            // The first rounds compile loops; a steady allocation shows in each round.
            for (int window = 0; window < 100 && minAllocated.get() >= LESS_THAN_AN_OBJECT_EACH; window++) {
                all.barrier().await(SOON);
                long before = threads.getTotalThreadAllocatedBytes();
                for (int i = 0; i < WORKS; i++) {
                    for (Work work : works) {
                        work.start();
                        work.await(SOON);
                    }
                }
                long allocated = threads.getTotalThreadAllocatedBytes() - before;
                minAllocated.accumulateAndGet(allocated, Math::min);
                // Both ranks have updated the minimum before either reads it.
                all.barrier().await(SOON);
            }
            return null;
        });
        assertThat(minAllocated.get()).isLessThan(LESS_THAN_AN_OBJECT_EACH);
    }
}
