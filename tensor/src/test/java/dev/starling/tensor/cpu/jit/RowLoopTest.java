package dev.starling.tensor.cpu.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.util.Random;
import java.util.function.Consumer;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Loops over rows with vectors of both widths, compared with Java. */
class RowLoopTest {
    private static final int ROWS = 3;
    private static final float[] SPECIALS = {0, -0f, 1, Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY,
        Float.MIN_VALUE, Float.MAX_VALUE};

    /** What a loop gives for an element of {@code x} and of {@code y}, and the row's value. */
    private interface Scalar {
        float of(float x, float y, float row);
    }

    private record Case(Consumer<RowLoop.Builder> loop, Scalar scalar) { }

    private static final Case[] CASES = {
        new Case(b -> {
            int x = b.column();
            int y = b.column();
            b.store(b.div(b.sub(x, y), b.row()));
        }, (x, y, row) -> (x - y) / row),
        new Case(b -> {
            int x = b.wide(b.column());
            int y = b.wide(b.column());
            b.store(b.narrow(b.add(x, b.div(y, b.wide(b.row())))));
        }, (x, y, row) -> (float) (x + (double) y / row)),
        new Case(b -> {
            int x = b.wide(b.column());
            int y = b.wide(b.column());
            int root = b.sqrt(b.add(b.mul(x, x), b.wide(b.row())));
            b.store(b.narrow(b.div(y, root)));
        }, (x, y, row) -> (float) (y / Math.sqrt((double) x * x + row))),
        new Case(b -> {
            int x = b.column();
            int y = b.column();
            b.store(b.ifFinite(x, y, b.ifNumber(x, b.neg(y), b.row())));
        }, (x, y, row) -> Float.isFinite(x) ? y : Float.isNaN(x) ? row : -y),
        new Case(b -> {
            int x = b.column();
            int y = b.column();
            b.store(b.ifSame(x, b.constant(0), y, b.ifBelow(x, y, b.addIntegers(x, y), b.row())));
        }, (x, y, row) -> {
            int a = Float.floatToRawIntBits(x);
            int c = Float.floatToRawIntBits(y);
            return a == 0 ? y : a < c ? Float.intBitsToFloat(a + c) : row;
        })};

    @ParameterizedTest
    @ValueSource(ints = {512, 256})
    void computesWhatJavaDoes(int bits) {
        assumeTrue(MachineCode.VECTOR_BITS >= bits, MachineCode.description());
        for (Case c : CASES) {
            RowLoop loop = RowLoop.of(c.loop, bits);
            for (int columns = 1; columns < 40; columns++) {
                compare(loop, columns, c.scalar, 0);
            }
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {512, 256})
    void roundsLogarithmsToTheNearestFloatOrTheNext(int bits) {
        assumeTrue(MachineCode.VECTOR_BITS >= bits, MachineCode.description());
        RowLoop loop = RowLoop.of(b -> {
            int log = b.log(b.wide(b.column()));
            b.store(b.narrow(b.sub(log, b.wide(b.add(b.column(), b.row())))));
        }, bits);
        for (int columns = 1; columns < 40; columns++) {
            compare(loop, columns, (x, y, row) -> (float) (Math.log(x) - (y + row)), 1);
        }
    }

    private static void compare(RowLoop loop, int columns, Scalar scalar, int ulps) {
        Random random = new Random(columns);
        try (Arena arena = Arena.ofConfined()) {
            long[] at = new long[4];
            for (int k = 0; k < at.length; k++) {
                at[k] = arena.allocate(4L * ROWS * columns, 4).address();
                for (int i = 0; i < ROWS * columns; i++) {
                    float value = random.nextInt(3) > 0 ? (float) random.nextGaussian()
                            : SPECIALS[random.nextInt(SPECIALS.length)];
                    HostMemory.putFloat(at[k] + 4L * i, value);
                }
            }
            loop.call().operand(at[0], 4L * columns)
                    .operand(at[1], 4L * columns)
                    .operand(at[2], 4)
                    .operand(at[3], 4L * columns)
                    .run(ROWS, columns);
            for (int i = 0; i < ROWS * columns; i++) {
                float expected = scalar.of(HostMemory.getFloat(at[0] + 4L * i), HostMemory.getFloat(at[1] + 4L * i),
                        HostMemory.getFloat(at[2] + 4L * (i / columns)));
                float actual = HostMemory.getFloat(at[3] + 4L * i);
                boolean near = actual >= expected - ulps * Math.ulp(expected)
                        && actual <= expected + ulps * Math.ulp(expected);
                assertThat(near || Float.compare(actual, expected) == 0)
                        .as("element %s of %s columns: %s, expected %s", i, columns, actual, expected).isTrue();
            }
        }
    }
}
