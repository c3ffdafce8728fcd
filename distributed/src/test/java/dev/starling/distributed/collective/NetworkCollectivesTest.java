package dev.starling.distributed.collective;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Collectives;
import dev.starling.distributed.Coordinator;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.Work;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.math.BigInteger;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class NetworkCollectivesTest {
    private static final Duration SOON = Duration.ofSeconds(20);
    private static final long OFFSET = 192;
    /** Nothing, one element, odd ones, either side of what is small, of a piece, and of all scratch memory. */
    private static final int[] COUNTS = {0, 1, 7, 1024, 1025, 32_768 * 3 + 5, (int) (Ring.SCRATCH_BYTES / 4) + 33};

    private static Cluster cluster(int world) {
        return new Cluster(TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(5))
                .sharedMemory(false), world, Coordinator.OnLoss.END);
    }

    /** Integers small enough for sums and products of any order to be exact in each type. */
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
    void shouldReduceAllTypesInAllWays(int world) {
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
    void shouldDoAllKindsInAllLengths(int world) {
        int most = (COUNTS[COUNTS.length - 1] + world) / world * world;
        cluster(world).run(group -> {
            int rank = group.rank();
            Collectives all = group.collectives();
            try (SymmetricBuffer buffer = all.symmetric(4L * most + OFFSET)) {
                MemorySegment memory = buffer.memory();
                long round = 0;
                for (int length : COUNTS) {
                    int count = length / world * world;
                    round++;
                    checkAllReduce(group, buffer, DType.F32, ReduceOp.SUM, length, round);

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
    @ValueSource(ints = {2, 3, 5})
    void shouldGiveTheSameBitsToAll(int world) {
        for (int count : new int[] {500, 300_001}) {
            List<Integer> hashes = cluster(world).run(group -> {
                SplittableRandom random = new SplittableRandom(group.rank());
                int hash = 0;
                try (SymmetricBuffer buffer = group.collectives().symmetric(4L * count)) {
                    MemorySegment memory = buffer.memory();
                    for (int i = 0; i < count; i++) {
                        memory.setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) (random.nextDouble() - 0.5));
                    }
                    group.collectives().allReduce(buffer, 0, count, DType.F32, ReduceOp.AVERAGE).await(SOON);
                    hash = Arrays.hashCode(memory.asSlice(0, 4L * count).toArray(ValueLayout.JAVA_INT));
                }
                return hash;
            });
            assertThat(hashes.stream().distinct()).hasSize(1);
        }
    }

    @Test
    void shouldGoOnForLong() {
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

    @Test
    void shouldNameBothCallsOfAMismatch() {
        assertThatThrownBy(() -> cluster(4).run(group -> {
            SymmetricBuffer buffer = group.collectives().symmetric(1 << 16);
            if (group.rank() == 2) {
                group.collectives().broadcast(buffer, 0, 16_384, DType.F32, 1).await(SOON);
            } else {
                group.collectives().allReduce(buffer, 0, 16_384, DType.F32, ReduceOp.SUM).await(SOON);
            }
            return null;
        })).isInstanceOf(DistributedException.class).hasMessageContaining("all reduce (sum) of f32[16384]")
                .hasMessageContaining("broadcast of f32[16384] from rank 1");
    }
}
