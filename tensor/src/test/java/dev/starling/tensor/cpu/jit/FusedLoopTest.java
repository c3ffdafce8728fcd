package dev.starling.tensor.cpu.jit;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatIllegalArgumentException;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.x86.MachineCode;
import dev.starling.tensor.host.HostMemory;
import dev.starling.tensor.op.scalar.Opcode;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/** Every opcode on every type, in vectors and element by element, against scalar arithmetic in {@link ScalarOracle}. */
class FusedLoopTest {
    private static final int[] COUNTS = {0, 1, 3, 15, 16, 17, 33, 1025};

    private final Arena arena = Arena.ofConfined();

    @BeforeEach
    void useVectorsImmediately() {
        WarmKernels.start(true);
    }

    @AfterEach
    void free() {
        WarmKernels.start(false);
        arena.close();
    }

    static List<Arguments> opcodesAndTypes() {
        List<Arguments> all = new ArrayList<>();
        for (Opcode opcode : Opcode.values()) {
            for (DType type : DType.values()) {
                if (opcode != Opcode.CAST && opcode.computes(type)) {
                    all.add(Arguments.of(opcode, type));
                }
            }
        }
        return all;
    }

    @ParameterizedTest
    @MethodSource("opcodesAndTypes")
    void computesContiguousOperands(Opcode opcode, DType type) {
        for (FusedLoop loop : loops(SingleOpcode.of(opcode, type, 0))) {
            for (int count : COUNTS) {
                Operands operands = new Operands(loop, count, count);
                operands.runFlat(count);
                for (int i = 0; i < count; i++) {
                    operands.check(opcode, i, i);
                }
            }
        }
    }

    @ParameterizedTest
    @MethodSource("opcodesAndTypes")
    void givesTheSameBitsInVectorsAndElements(Opcode opcode, DType type) {
        for (FusedLoop loop : loops(SingleOpcode.of(opcode, type, 0))) {
            int count = 509;
            Operands operands = new Operands(loop, count, count);
            Frame frame = new Frame();
            for (int k = 0; k < operands.addresses.length; k++) {
                frame.set(k, operands.addresses[k]);
            }
            loop.flat().kernel().run(frame, 0, 1, 0, count);
            long[] first = operands.bits(operands.addresses.length - 1, count);
            loop.flat().kernel().runElements(frame, 0, 1, 0, count);
            assertThat(operands.bits(operands.addresses.length - 1, count)).isEqualTo(first);
        }
    }

    @ParameterizedTest
    @EnumSource(DType.class)
    void broadcastsAndStrides(DType type) {
        Opcode opcode = type == DType.BOOL ? Opcode.OR : Opcode.ADD;
        long[][] shapes = {{}, {1}, {5}, {4, 7}, {3, 1, 40}, {2, 3, 4, 5}, {3, 2, 33}, {2, 2, 2, 2, 17}, {7, 0, 3}};
        for (FusedLoop loop : loops(SingleOpcode.of(opcode, type, 0))) {
            for (long[] shape : shapes) {
                for (int seed = 0; seed < 12; seed++) {
                    new StridedCase(loop, shape, new SplittableRandom(seed)).check(opcode);
                }
            }
        }
    }

    @Test
    void cutsLargeArraysIntoTilesForSeveralThreads() {
        FusedLoop loop = FusedLoop.of(SingleOpcode.of(Opcode.MUL, DType.F32, 0));
        int rows = 300;
        int columns = 1_001;
        Operands operands = new Operands(loop, rows * columns, rows * columns);
        operands.runFlat(rows * columns);
        for (int i = 0; i < rows * columns; i++) {
            operands.check(Opcode.MUL, i, i);
        }
        long[] shape = {rows, columns};
        Launch launch = Launch.of(loop);
        launch.shape(shape);
        launch.operand(0, operands.addresses[0], shape, new long[] {1, rows});
        launch.operand(1, operands.addresses[1], new long[] {columns}, new long[] {1});
        launch.operand(2, operands.addresses[2], shape, new long[] {columns, 1});
        launch.runStrided();
        for (int r = 0; r < rows; r++) {
            for (int c = 0; c < columns; c++) {
                float expected = operands.f32(0, c * rows + r) * operands.f32(1, c);
                assertThat(operands.f32(2, r * columns + c)).isEqualTo(Float.valueOf(expected));
            }
        }
    }

    @Test
    void worksInPlace() {
        for (FusedLoop loop : loops(SingleOpcode.of(Opcode.SUB, DType.F32, 0))) {
            for (int count : COUNTS) {
                Operands operands = new Operands(loop, count, count);
                float[] a = operands.floats(0, count);
                float[] b = operands.floats(1, count);
                operands.addresses[2] = operands.addresses[0];
                operands.runFlat(count);
                for (int i = 0; i < count; i++) {
                    assertThat(operands.f32(0, i)).isEqualTo(Float.valueOf(a[i] - b[i]));
                }
            }
        }
    }

    @ParameterizedTest
    @EnumSource(DType.class)
    void convertsToEveryType(DType from) {
        for (DType to : DType.values()) {
            for (FusedLoop loop : loops(Expression.cast(from, to))) {
                Operands operands = new Operands(loop, 200, 200);
                operands.runFlat(200);
                long expected = arena.allocate(8, 8).address();
                for (int i = 0; i < 200; i++) {
                    long source = operands.addresses[0] + (long) i * from.bytes();
                    if (from.isFloating()) {
                        HostMemory.putDouble(to, expected, HostMemory.getDouble(from, source));
                    } else {
                        HostMemory.putLong(to, expected, HostMemory.getLong(from, source));
                    }
                    assertThat(HostMemory.getDouble(to, operands.addresses[1] + (long) i * to.bytes()))
                            .as("%s of %s", to, HostMemory.getDouble(from, source))
                            .isEqualTo(Double.valueOf(HostMemory.getDouble(to, expected)));
                }
            }
        }
    }

    @Test
    void convertsEveryHalfFloatBothWays() {
        long halves = arena.allocate(2 << 16, 64).address();
        long floats = arena.allocate(4 << 16, 64).address();
        for (DType half : new DType[] {DType.F16, DType.BF16}) {
            for (int kind = 0; kind < loops(Expression.cast(half, DType.F32)).size(); kind++) {
                for (int i = 0; i < 1 << 16; i++) {
                    HostMemory.putLong(DType.I8, halves + 2L * i, i);
                    HostMemory.putLong(DType.I8, halves + 2L * i + 1, i >> 8);
                }
                run(loops(Expression.cast(half, DType.F32)).get(kind), 1 << 16, halves, floats);
                for (int i = 0; i < 1 << 16; i++) {
                    assertThat(HostMemory.getDouble(DType.F32, floats + 4L * i))
                            .isEqualTo(Double.valueOf(HostMemory.getDouble(half, halves + 2L * i)));
                }
                SplittableRandom random = new SplittableRandom(1);
                float[] sources = new float[1 << 16];
                for (int i = 0; i < 1 << 16; i++) {
                    sources[i] = i < 32 ? ScalarOracle.SPECIAL[i % ScalarOracle.SPECIAL.length]
                            : Float.intBitsToFloat(
                            (random.nextInt(160) + 48 << 23 | random.nextInt(1 << 23)) ^ i << 31);
                    HostMemory.putDouble(DType.F32, floats + 4L * i, sources[i]);
                }
                run(loops(Expression.cast(DType.F32, half)).get(kind), 1 << 16, floats, halves);
                long expected = arena.allocate(2, 2).address();
                for (int i = 0; i < 1 << 16; i++) {
                    HostMemory.putDouble(half, expected, sources[i]);
                    assertThat(HostMemory.getDouble(half, halves + 2L * i)).as("%s", sources[i])
                            .isEqualTo(Double.valueOf(HostMemory.getDouble(half, expected)));
                }
            }
        }
    }

    @Test
    void acceptsParametersWithEachCall() {
        for (DType type : new DType[] {DType.F32, DType.F64, DType.BF16}) {
            for (FusedLoop loop : loops(SingleOpcode.of(Opcode.AFFINE, type, 2))) {
                Operands operands = new Operands(loop, 40, 40);
                for (double scale : new double[] {0.5, -3}) {
                    Launch launch = operands.launch();
                    launch.parameter(0, scale);
                    launch.parameter(1, 0.25);
                    launch.runFlat(40);
                    for (int i = 0; i < 40; i++) {
                        double x = HostMemory.getDouble(type, operands.addresses[0] + (long) i * type.bytes());
                        assertThat(HostMemory.getDouble(type, operands.addresses[1] + (long) i * type.bytes()))
                                .isEqualTo(Double.valueOf(ScalarOracle.rounded(type, (type == DType.F64 ? x * scale
                                        : (float) (x * scale)) + 0.25)));
                    }
                }
            }
        }
        FusedLoop loop = FusedLoop.of(SingleOpcode.of(Opcode.ADD, DType.I64, 1));
        Operands operands = new Operands(loop, 20, 20);
        Launch launch = operands.launch();
        launch.parameter(0, Long.MAX_VALUE - 1);
        launch.runFlat(20);
        for (int i = 0; i < 20; i++) {
            assertThat(HostMemory.getLong(DType.I64, operands.addresses[1] + 8L * i))
                    .isEqualTo(HostMemory.getLong(DType.I64, operands.addresses[0] + 8L * i) + Long.MAX_VALUE - 1);
        }
    }

    @Test
    void fusesSeveralTypesAndOutputs() {
        Expression.Builder builder = new Expression.Builder();
        Expression.Value x = builder.input(DType.F32);
        Expression.Value y = builder.input(DType.F64);
        Expression.Value mask = builder.apply(Opcode.GT, x, builder.constant(DType.F32, 0));
        Expression.Value wide = builder.cast(x, DType.F64);
        Expression.Value sum = builder.apply(Opcode.ADD, wide, y);
        builder.output(builder.apply(Opcode.WHERE, mask, sum, y)).output(mask).output(builder.cast(sum, DType.BF16));
        Expression expression = builder.build();
        for (FusedLoop loop : loops(expression)) {
            Operands operands = new Operands(loop, 101, 101);
            operands.runFlat(101);
            for (int i = 0; i < 101; i++) {
                float a = operands.f32(0, i);
                double b = HostMemory.getDouble(DType.F64, operands.addresses[1] + 8L * i);
                assertThat(HostMemory.getDouble(DType.F64, operands.addresses[2] + 8L * i))
                        .isEqualTo(Double.valueOf(a > 0 ? a + b : b));
                assertThat(HostMemory.getLong(DType.BOOL, operands.addresses[3] + i)).isEqualTo(a > 0 ? 1 : 0);
                assertThat(HostMemory.getDouble(DType.BF16, operands.addresses[4] + 2L * i))
                        .isEqualTo(Double.valueOf(ScalarOracle.rounded(DType.BF16, (float) (a + b))));
            }
        }
    }

    @Test
    void recognisesLoopsThatTheJvmWouldNotCompile() {
        for (Opcode opcode : Opcode.values()) {
            if (opcode != Opcode.CAST && opcode.computes(DType.F64)) {
                assertThat(FusedLoop.isCompilable(SingleOpcode.of(opcode, DType.F64, 0))).as("%s", opcode).isTrue();
            }
        }
        Expression.Builder builder = new Expression.Builder();
        Expression.Value x = builder.input(DType.F64);
        Expression.Value power = x;
        for (int i = 0; i < 8; i++) {
            power = builder.apply(Opcode.POW, power, x);
        }
        assertThat(FusedLoop.isCompilable(builder.output(power).build())).isFalse();
    }

    @Test
    void refusesOperandsThatDoNotFit() {
        Expression.Builder builder = new Expression.Builder();
        Expression.Value x = builder.input(DType.F32);
        Expression.Value y = builder.input(DType.F64);
        assertThatIllegalArgumentException().isThrownBy(() -> builder.apply(Opcode.ADD, x, y))
                .withMessageContaining("ADD");
        assertThatIllegalArgumentException().isThrownBy(() -> builder.apply(Opcode.NEG, x, x))
                .withMessageContaining("1");
    }

    @Test
    void builtExpressionsIgnoreLaterCallsOfTheirBuilder() {
        Expression.Builder builder = new Expression.Builder();
        Expression built = builder.output(builder.input(DType.F32)).build();
        builder.output(builder.input(DType.F64));
        assertThat(built.inputs()).containsExactly(DType.F32);
        assertThat(built.outputs()).hasSize(1);
    }

    /** The loops of an expression: over elements, with the Vector API, and in all machine code that runs here. */
    private static List<FusedLoop> loops(Expression expression) {
        return Stream.of(new int[] {0, 0}, new int[] {Vectors.bits(), 0}, new int[] {0, 256}, new int[] {0, 512})
                .filter(bits -> bits[1] <= MachineCode.VECTOR_BITS)
                .map(bits -> new FusedLoop(expression, () -> bits[0], bits[1])).toList();
    }

    private static void run(FusedLoop loop, int count, long... addresses) {
        Launch launch = Launch.of(loop);
        for (int k = 0; k < addresses.length; k++) {
            launch.operand(k, addresses[k]);
        }
        launch.runFlat(count);
    }

    /** Memory for the operands of a loop; inputs are filled with numbers that are critical for the type. */
    private final class Operands {
        final FusedLoop loop;
        final long[] addresses;

        Operands(FusedLoop loop, int inputElements, int outputElements) {
            this.loop = loop;
            Expression expression = loop.expression();
            addresses = new long[expression.operands()];
            for (int k = 0; k < addresses.length; k++) {
                boolean read = k < expression.inputs().size();
                DType type = expression.operand(k);
                int elements = read ? inputElements : outputElements;
                addresses[k] = arena.allocate(Math.max(1, (long) elements * type.bytes()), 64).address();
                if (read) {
                    ScalarOracle.fill(type, addresses[k], elements, new SplittableRandom(k));
                }
            }
        }

        Launch launch() {
            Launch launch = Launch.of(loop);
            for (int k = 0; k < addresses.length; k++) {
                launch.operand(k, addresses[k]);
            }
            return launch;
        }

        void runFlat(int count) {
            launch().runFlat(count);
        }

        /** Returns the elements' bits; all NaNs count as one. */
        long[] bits(int k, int count) {
            DType type = loop.expression().operand(k);
            long[] bits = new long[count];
            Arrays.setAll(bits, i -> type.isFloating()
                    ? Double.doubleToLongBits(HostMemory.getDouble(type, addresses[k] + (long) i * type.bytes()))
                    : HostMemory.getLong(type, addresses[k] + (long) i * type.bytes()));
            return bits;
        }

        float[] floats(int k, int count) {
            float[] floats = new float[count];
            for (int i = 0; i < count; i++) {
                floats[i] = f32(k, i);
            }
            return floats;
        }

        float f32(int k, int i) {
            return (float) HostMemory.getDouble(DType.F32, addresses[k] + 4L * i);
        }

        void check(Opcode opcode, int in, int out) {
            long[] at = new long[addresses.length];
            for (int k = 0; k < at.length; k++) {
                int index = k == at.length - 1 ? out : in;
                at[k] = addresses[k] + (long) index * loop.expression().operand(k).bytes();
            }
            ScalarOracle.check(opcode, loop.expression(), at);
        }
    }

    /**
     * Two inputs with random strides, some reversed, permuted or broadcast, and an output that is dense or permuted.
     */
    private final class StridedCase {
        private final FusedLoop loop;
        private final long[] shape;
        private final long[][] dims = new long[3][];
        private final long[][] strides = new long[3][];
        private final long[] bases = new long[3];

        StridedCase(FusedLoop loop, long[] shape, SplittableRandom random) {
            this.loop = loop;
            this.shape = shape;
            for (int k = 0; k < 3; k++) {
                lay(k, random);
            }
        }

        private void lay(int k, SplittableRandom random) {
            int bytes = loop.expression().operand(k).bytes();
            int rank = k == 1 && shape.length > 1 ? shape.length - random.nextInt(2) : shape.length;
            dims[k] = Arrays.copyOfRange(shape, shape.length - rank, shape.length);
            strides[k] = new long[rank];
            List<Integer> order = new ArrayList<>();
            for (int d = 0; d < rank; d++) {
                if (k < 2 && random.nextInt(4) == 0) {
                    dims[k][d] = 1;
                }
                order.add(random.nextInt(3) == 0 ? 0 : order.size(), d);
            }
            long step = random.nextInt(3) == 0 ? 2 : 1;
            long lowest = 0;
            for (int d : order.reversed()) {
                strides[k][d] = k < 2 && random.nextInt(5) == 0 ? -step : step;
                lowest += Math.min(0, strides[k][d] * Math.max(0, dims[k][d] - 1));
                step *= Math.max(1, dims[k][d]);
            }
            bases[k] = arena.allocate(step * bytes, 64).address() - lowest * bytes;
            if (k < 2) {
                ScalarOracle.fill(loop.expression().operand(k), bases[k] + lowest * bytes, (int) step, random);
            }
        }

        void check(Opcode opcode) {
            Launch launch = Launch.of(loop);
            launch.shape(shape);
            for (int k = 0; k < 3; k++) {
                launch.operand(k, bases[k], dims[k], strides[k]);
            }
            launch.runStrided();
            long count = Arrays.stream(shape).reduce(1, (a, b) -> a * b);
            for (long i = 0; i < count; i++) {
                long[] at = new long[3];
                for (int k = 0; k < 3; k++) {
                    at[k] = bases[k] + offset(i, k) * loop.expression().operand(k).bytes();
                }
                ScalarOracle.check(opcode, loop.expression(), at);
            }
        }

        private long offset(long index, int k) {
            long rest = index;
            long offset = 0;
            for (int d = shape.length - 1, e = dims[k].length - 1; d >= 0; d--, e--) {
                if (e >= 0 && dims[k][e] != 1) {
                    offset += rest % shape[d] * strides[k][e];
                }
                rest /= shape[d];
            }
            return offset;
        }
    }
}
