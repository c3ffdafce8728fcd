package dev.starling.distributed.collective.reduce;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ReduceOp;
import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class ReduceKernelsTest {
    private static final int[] COUNTS = {0, 1, 7, 8, 15, 16, 17, 31, 33, 64, 1001, 5000};
    private static final List<DType> TYPES = Arrays.stream(DType.values()).filter(ReduceKernels::supports).toList();
    private static final int GUARD = 64;

    private final ReduceKernels kernels = new ReduceKernels();

    /** Small integers whose sums, products and averages over this many sources are exact in every type. */
    private static long element(int source, int i) {
        return (i * 7L + source * 3L) % 5 - 2;
    }

    private static double expected(ReduceOp op, int sources, int i, boolean floating) {
        double result = element(0, i);
        for (int s = 1; s < sources; s++) {
            double next = element(s, i);
            result = switch (op) {
                case SUM, AVERAGE -> result + next;
                case PRODUCT -> result * next;
                case MIN -> Math.min(result, next);
                case MAX -> Math.max(result, next);
            };
        }
        if (op != ReduceOp.AVERAGE) {
            return result;
        }
        return floating ? result / sources : (long) (result / sources);
    }

    private static void set(DType type, MemorySegment memory, int i, double value) {
        switch (type) {
            case F32 -> memory.setAtIndex(ValueLayout.JAVA_FLOAT, i, (float) value);
            case F64 -> memory.setAtIndex(ValueLayout.JAVA_DOUBLE, i, value);
            case BF16 -> memory.setAtIndex(ValueLayout.JAVA_SHORT, i,
                (short) (Float.floatToIntBits((float) value) >>> 16));
            case F16 -> memory.setAtIndex(ValueLayout.JAVA_SHORT, i, Float.floatToFloat16((float) value));
            case I32 -> memory.setAtIndex(ValueLayout.JAVA_INT, i, (int) value);
            case I64 -> memory.setAtIndex(ValueLayout.JAVA_LONG, i, (long) value);
            default -> throw new AssertionError(type);
        }
    }

    private static double get(DType type, MemorySegment memory, int i) {
        return switch (type) {
            case F32 -> memory.getAtIndex(ValueLayout.JAVA_FLOAT, i);
            case F64 -> memory.getAtIndex(ValueLayout.JAVA_DOUBLE, i);
            case BF16 -> Float.intBitsToFloat(memory.getAtIndex(ValueLayout.JAVA_SHORT, i) << 16);
            case F16 -> Float.float16ToFloat(memory.getAtIndex(ValueLayout.JAVA_SHORT, i));
            case I32 -> memory.getAtIndex(ValueLayout.JAVA_INT, i);
            case I64 -> memory.getAtIndex(ValueLayout.JAVA_LONG, i);
            default -> throw new AssertionError(type);
        };
    }

    private static double epsilon(DType type) {
        return switch (type) {
            case F32 -> 0x1p-22;
            case F64 -> 0x1p-51;
            case BF16 -> 0x1p-8;
            case F16 -> 0x1p-11;
            default -> 0;
        };
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 8, 9})
    void reducesEveryTypeInPlaceWithEveryOperation(int sources) {
        for (DType type : TYPES) {
            for (ReduceOp op : ReduceOp.values()) {
                for (int count : COUNTS) {
                    reducesInPlace(type, op, sources, count);
                }
            }
        }
    }

    private void reducesInPlace(DType type, ReduceOp op, int sources, int count) {
        try (Arena arena = Arena.ofConfined()) {
            List<MemorySegment> memories = new ArrayList<>();
            for (int s = 0; s < sources; s++) {
                MemorySegment memory = arena.allocate((long) count * type.bytes() + 2 * GUARD, 64).fill((byte) 0x5a);
                MemorySegment inner = memory.asSlice(GUARD, (long) count * type.bytes());
                for (int i = 0; i < count; i++) {
                    set(type, inner, i, element(s, i));
                }
                memories.add(memory);
            }
            long[] addresses = memories.stream().mapToLong(MemorySegment::address).toArray();
            kernels.reduce(type, op, addresses, addresses, GUARD, count);
            for (MemorySegment memory : memories) {
                MemorySegment inner = memory.asSlice(GUARD, (long) count * type.bytes());
                for (int i = 0; i < count; i++) {
                    double right = expected(op, sources, i, type.isFloating());
                    double got = get(type, inner, i);
                    if (!(Math.abs(got - right) <= Math.abs(right) * epsilon(type))) {
                        throw new AssertionError("%s of %s, %d sources, element %d of %d: %s, right is %s".formatted(op,
                            type, sources, i, count, got, right));
                    }
                }
                assertThat(memory.get(ValueLayout.JAVA_BYTE, GUARD - 1)).isEqualTo((byte) 0x5a);
                assertThat(memory.get(ValueLayout.JAVA_BYTE, memory.byteSize() - GUARD)).isEqualTo((byte) 0x5a);
            }
        }
    }

    @ParameterizedTest
    @EnumSource(ReduceOp.class)
    void reducesFloatsInTheOrderOfSources(ReduceOp op) {
        int count = 1003;
        Random random = new Random(5);
        for (int sources : new int[] {2, 3, 4, 7}) {
            float[][] inputs = new float[sources][count];
            try (Arena arena = Arena.ofConfined()) {
                long[] addresses = new long[sources];
                for (int s = 0; s < sources; s++) {
                    for (int i = 0; i < count; i++) {
                        inputs[s][i] = special(random);
                    }
                    addresses[s] = arena.allocateFrom(ValueLayout.JAVA_FLOAT, inputs[s]).address();
                }
                MemorySegment target = arena.allocate(4L * count);
                kernels.reduce(DType.F32, op, addresses, new long[] {target.address()}, 0, count);
                for (int i = 0; i < count; i++) {
                    float right = inputs[0][i];
                    for (int s = 1; s < sources; s++) {
                        right = switch (op) {
                            case SUM, AVERAGE -> right + inputs[s][i];
                            case PRODUCT -> right * inputs[s][i];
                            case MIN -> Math.min(right, inputs[s][i]);
                            case MAX -> Math.max(right, inputs[s][i]);
                        };
                    }
                    right = op == ReduceOp.AVERAGE ? right * (float) (1.0 / sources) : right;
                    assertThat(Float.floatToIntBits(target.getAtIndex(ValueLayout.JAVA_FLOAT, i)))
                        .isEqualTo(Float.floatToIntBits(right));
                }
            }
        }
    }

    private static float special(Random random) {
        return switch (random.nextInt(30)) {
            case 0 -> Float.NaN;
            case 1 -> Float.POSITIVE_INFINITY;
            case 2 -> Float.NEGATIVE_INFINITY;
            case 3 -> -0f;
            case 4 -> 0f;
            default -> (float) (random.nextGaussian() * Math.pow(10, random.nextInt(-8, 9)));
        };
    }

    @Test
    void roundsSumsOfBrainFloatsToTheNearestOnce() {
        int count = 4099;
        Random random = new Random(7);
        for (int sources : new int[] {2, 3, 4, 6}) {
            try (Arena arena = Arena.ofConfined()) {
                List<MemorySegment> memories = new ArrayList<>();
                for (int s = 0; s < sources; s++) {
                    MemorySegment memory = arena.allocate(2L * count, 64);
                    for (int i = 0; i < count; i++) {
                        memory.setAtIndex(ValueLayout.JAVA_SHORT, i,
                            (short) (Float.floatToRawIntBits(special(random)) >>> 16));
                    }
                    memories.add(memory);
                }
                float[] sums = new float[count];
                for (int i = 0; i < count; i++) {
                    sums[i] = (float) get(DType.BF16, memories.getFirst(), i);
                    for (int s = 1; s < sources; s++) {
                        sums[i] += (float) get(DType.BF16, memories.get(s), i);
                    }
                }
                long[] addresses = memories.stream().mapToLong(MemorySegment::address).toArray();
                kernels.reduce(DType.BF16, ReduceOp.SUM, addresses, addresses, 0, count);
                for (MemorySegment memory : memories) {
                    for (int i = 0; i < count; i++) {
                        float got = (float) get(DType.BF16, memory, i);
                        if (!isNearest(got, sums[i])) {
                            throw new AssertionError(got + " is not the nearest to " + sums[i]);
                        }
                    }
                }
            }
        }
    }

    /** Returns whether no other brain float is nearer, or as near and has an even last bit. */
    private static boolean isNearest(float got, float exact) {
        if (Float.isNaN(exact) || Float.isInfinite(exact) || exact == 0) {
            return Float.compare(got, exact) == 0;
        }
        int bits = Float.floatToRawIntBits(got);
        double distance = Math.abs((double) got - exact);
        for (int neighbour : new int[] {bits + 0x10000, bits - 0x10000}) {
            double other = Math.abs((double) Float.intBitsToFloat(neighbour) - exact);
            if (other < distance || other == distance && (bits & 0x10000) != 0) {
                return false;
            }
        }
        return (bits & 0xffff) == 0;
    }

    @Test
    void convertsHalfFloatsLikeJava() {
        int count = (1 << 16) + 5;
        Random random = new Random(9);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment[] memories = new MemorySegment[3];
            for (int s = 0; s < memories.length; s++) {
                memories[s] = arena.allocate(2L * count, 64);
                for (int i = 0; i < count; i++) {
                    int some = random.nextInt(3) == 0 ? random.nextInt(0x1000) : random.nextInt();
                    memories[s].setAtIndex(ValueLayout.JAVA_SHORT, i, (short) (s == 0 ? i : some));
                }
            }
            MemorySegment result = arena.allocate(2L * count, 64);
            for (int sources = 1; sources <= memories.length; sources++) {
                long[] addresses = Arrays.stream(memories).limit(sources).mapToLong(MemorySegment::address).toArray();
                kernels.reduce(DType.F16, ReduceOp.SUM, addresses, new long[] {result.address()}, 0, count);
                for (int i = 0; i < count; i++) {
                    float sum = (float) get(DType.F16, memories[0], i);
                    for (int s = 1; s < sources; s++) {
                        sum += (float) get(DType.F16, memories[s], i);
                    }
                    float right = Float.float16ToFloat(Float.floatToFloat16(sum));
                    if (Float.compare((float) get(DType.F16, result, i), right) != 0) {
                        throw new AssertionError("%d sources, element %d: %s, right is %s".formatted(sources, i,
                            get(DType.F16, result, i), right));
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F16", "BF16"})
    void continuesFromPartialResultsBitForBit(DType type) {
        Random random = new Random(11);
        for (ReduceOp op : List.of(ReduceOp.SUM, ReduceOp.AVERAGE, ReduceOp.PRODUCT)) {
            for (int count : COUNTS) {
                try (Arena arena = Arena.ofConfined()) {
                    long[] sources = new long[4];
                    for (int s = 0; s < sources.length; s++) {
                        MemorySegment memory = arena.allocate(2L * count + 2, 64);
                        for (int i = 0; i < count; i++) {
                            set(type, memory, i, random.nextGaussian());
                        }
                        sources[s] = memory.address();
                    }
                    MemorySegment atOnce = arena.allocate(2L * count + 2, 64);
                    MemorySegment inParts = arena.allocate(2L * count + 2, 64);
                    long partial = arena.allocate(4L * count + 4, 64).address();
                    kernels.reduce(type, op, sources, new long[] {atOnce.address()}, 0, count);
                    kernels.reduceWide(type, op, new long[] {sources[0], sources[1]}, false, partial, new long[0],
                        count, 4);
                    kernels.reduceWide(type, op, new long[] {sources[2]}, true, partial, new long[0], count, 4);
                    kernels.reduceWide(type, op, new long[] {sources[3]}, true, partial,
                        new long[] {inParts.address()}, count, 4);
                    assertThat(inParts.mismatch(atOnce)).as("%s of %d", op, count).isEqualTo(-1);
                }
            }
        }
    }

    @Test
    void refusesTypesThatCannotBeReduced() {
        assertThatThrownBy(() -> kernels.reduce(DType.BOOL, ReduceOp.SUM, new long[1], new long[1], 0, 1))
            .isInstanceOf(TensorException.class).hasMessageContaining("bool").hasMessageContaining("i32");
    }
}
