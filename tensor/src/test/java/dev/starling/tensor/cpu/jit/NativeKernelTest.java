package dev.starling.tensor.cpu.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Offset.offset;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Machine code of random expressions, bit for bit against loops over single elements. */
class NativeKernelTest {
    @ParameterizedTest
    @ValueSource(ints = {512, 256})
    void givesTheBitsOfTheElementLoops(int bits) {
        compare(bits, 0, 150);
    }

    @ParameterizedTest
    @ValueSource(ints = {512, 256})
    @Tag("stress")
    void givesTheBitsOfTheElementLoopsForLong(int bits) {
        compare(bits, 1_000, 6_000);
    }

    private static void compare(int bits, long first, int count) {
        assumeTrue(MachineCode.VECTOR_BITS >= bits, MachineCode.description());
        int compared = 0;
        for (long seed = first; seed < first + count; seed++) {
            RandomLoop loop = new RandomLoop(seed);
            if (loop.isComparable(bits)) {
                assertThat(loop.difference(bits)).as("seed %s", seed).isNull();
                compared++;
            }
        }
        assertThat(compared).isGreaterThan(count / 4);
    }

    /** More values at a time than there are registers, and more operands than pointers. */
    @ParameterizedTest
    @ValueSource(ints = {512, 256})
    void movesValuesToTheStack(int bits) {
        assumeTrue(MachineCode.VECTOR_BITS >= bits, MachineCode.description());
        int operands = 40;
        Expression.Builder builder = new Expression.Builder();
        List<Expression.Value> terms = new ArrayList<>();
        for (int i = 0; i < operands; i++) {
            terms.add(builder.input(DType.F32));
        }
        Expression.Value sum = terms.getFirst();
        for (Expression.Value term : terms) {
            sum = builder.apply(Opcode.ADD, sum, builder.apply(Opcode.MUL, term, terms.getLast()));
        }
        for (Expression.Value term : terms.reversed()) {
            sum = builder.apply(Opcode.SUB, sum, builder.apply(Opcode.MUL, term, term));
        }
        FusedLoop loop = new FusedLoop(builder.output(sum).build(), () -> 0, bits);
        int count = 37;
        try (Arena arena = Arena.ofConfined()) {
            float[] expected = new float[count];
            long[] addresses = new long[operands + 1];
            for (int k = 0; k <= operands; k++) {
                addresses[k] = arena.allocate(4L * count, 4).address();
                for (int i = 0; i < count; i++) {
                    HostMemory.putFloat(addresses[k] + 4L * i, value(k, i));
                }
            }
            for (int i = 0; i < count; i++) {
                float total = value(0, i);
                for (int k = 0; k < operands; k++) {
                    total += value(k, i) * value(operands - 1, i);
                }
                for (int k = operands - 1; k >= 0; k--) {
                    total -= value(k, i) * value(k, i);
                }
                expected[i] = total;
            }
            Launch launch = Launch.of(loop);
            for (int k = 0; k <= operands; k++) {
                launch.operand(k, addresses[k]);
            }
            launch.runFlat(count);
            for (int i = 0; i < count; i++) {
                assertThat(HostMemory.getFloat(addresses[operands] + 4L * i)).isEqualTo(expected[i]);
            }
        }
    }

    private static float value(int k, int i) {
        return (float) Math.sin(100.0 * k + i);
    }

    /** Arguments that the polynomials do not serve are computed by the element loop, between others that are. */
    @Test
    void leavesRareElementsToTheElementLoop() {
        assumeTrue(MachineCode.VECTOR_BITS >= 256, MachineCode.description());
        FusedLoop loop = new FusedLoop(SingleOpcode.of(Opcode.SIN, DType.F64, 0), () -> 0, MachineCode.VECTOR_BITS);
        int count = 300;
        try (Arena arena = Arena.ofConfined()) {
            long x = arena.allocate(8L * count, 8).address();
            long y = arena.allocate(8L * count, 8).address();
            for (int i = 0; i < count; i++) {
                HostMemory.putDouble(DType.F64, x + 8L * i, i % 50 == 3 || i > 280 ? 1e15 + i : i);
            }
            Launch launch = Launch.of(loop);
            launch.operand(0, x);
            launch.operand(1, y);
            launch.runFlat(count);
            for (int i = 0; i < count; i++) {
                assertThat(HostMemory.getDouble(DType.F64, y + 8L * i)).isCloseTo(
                        StrictMath.sin(HostMemory.getDouble(DType.F64, x + 8L * i)),
                        offset(1e-15));
            }
        }
    }
}
