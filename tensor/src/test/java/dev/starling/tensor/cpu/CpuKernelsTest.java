package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import com.sun.management.ThreadMXBean;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Binary;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Random;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.op.Update;
import java.lang.management.ManagementFactory;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.LongToDoubleFunction;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/**
 * The elementwise, update and random kernels, run through {@code Tensor.apply}, against the reference device and the
 * definitions.
 */
class CpuKernelsTest {
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open("test");
    }

    @AfterEach
    void close() {
        scope.close();
    }

    @Test
    void keepsTheLayoutOfADenseOperand() {
        Tensor x = random(DType.F32, 1, 2, 5, 4, 3).permute(0, 3, 1, 2);
        Tensor y = random(DType.F32, 2, 2, 3, 5, 4);
        Tensor bias = random(DType.F32, 3, 3, 1, 1);
        assertThat(Tensor.compute(Unary.EXP, x).strides()).isEqualTo(x.strides());
        assertThat(Tensor.compute(Binary.ADD, x, bias).strides()).isEqualTo(x.strides());
        assertThat(Tensor.compute(Binary.ADD, y, x).isContiguous()).isTrue();
        assertThat(Tensor.compute(Unary.EXP, x.narrow(1, 0, 2)).isContiguous()).isTrue();
        for (Tensor[] operands : new Tensor[][] {{x, bias}, {bias, x}, {x, y}, {y, x}, {x, Tensor.scalar(2)},
            {x.narrow(1, 1, 2), y.narrow(1, 0, 2)}}) {
            same(Binary.SUB, 1e-6, operands);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "F64", "BF16"})
    void updatesParametersInPlace(DType type) {
        double tolerance = type == DType.BF16 ? 0.05 : 1e-5;
        for (int n : new int[] {0, 1, 15, 16, 17, 1000}) {
            for (boolean flag : new boolean[] {false, true}) {
                updates(new Rule.Sgd(0, 0, flag ? 0.01 : 0, false).step(0.1, 1), 2, type, tolerance, n);
                updates(new Rule.Sgd(0.9, 0.1, 0.01, flag).step(0.1, 1), 3, type, tolerance, n);
                updates(new Rule.Adagrad(1e-10, flag ? 0.1 : 0, 0).step(0.1, 1), 3, type, tolerance, n);
                updates(new Rule.Adam(0.9, 0.99, 1e-8, 0.1, flag).step(1e-2, 3), 4, type, tolerance, n);
            }
            updates(new Update.Blend(0.9, 0.1), 2, type, tolerance, n);
        }
    }

    private void updates(Update op, int operands, DType type, double tolerance, long... shape) {
        Tensor[] on = new Tensor[operands];
        Tensor[] by = new Tensor[operands];
        for (int k = 0; k < operands; k++) {
            Tensor made = random(type, k, shape);
            on[k] = k == 3 ? Tensor.compute(Unary.SQUARE, made) : made;
            by[k] = on[k].to(Device.reference());
        }
        Tensor.apply(op, on);
        Tensor.apply(op, by);
        for (int k = 0; k < operands; k++) {
            close(on[k], by[k], tolerance, op);
        }
    }

    @Test
    void updatesStridedParameters() {
        Tensor x = random(DType.F32, 1, 6, 5);
        double[] before = x.toDoubles();
        Tensor.apply(new Update.Blend(1, 2), x.permute(1, 0).narrow(0, 1, 3), Tensor.full(DType.F32, 1, 3, 6));
        for (int i = 0; i < 30; i++) {
            double change = i % 5 >= 1 && i % 5 < 4 ? 2 : 0;
            assertThat(x.toDoubles()[i]).isCloseTo(before[i] + change, within(1e-6));
        }
    }

    @Test
    void assignsWithConversionBroadcastAndOverlap() {
        Tensor x = Tensor.zeros(3, 4);
        Tensor.apply(new Update.Assign(), x, Tensor.of(new int[] {1, 2, 3, 4}));
        assertThat(x.toDoubles()).containsExactly(1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4);
        Tensor.apply(new Update.Assign(), x.narrow(1, 1, 3), x.narrow(1, 0, 3));
        assertThat(x.toDoubles()).containsExactly(1, 1, 2, 3, 1, 1, 2, 3, 1, 1, 2, 3);
    }

    /** The first elements of both are at the same place, and their strides are equal numbers of elements. */
    @Test
    void assignsBetweenViewsOfDifferentTypesOfOneMemory() {
        int n = 1000;
        for (Device device : new Device[] {Device.cpu(), Device.reference()}) {
            Tensor wide = Tensor.full(new Spec(DType.F64, Shape.of(n), device), 0);
            Tensor narrow = wide.storage().view(new Spec(DType.F32, Shape.of(n), device), wide.strides(), 0);
            Tensor.apply(new Update.Assign(), narrow, Tensor.arange(new Spec(DType.F32, Shape.of(n), device), 0, 1));
            Tensor.apply(new Update.Assign(), wide, narrow);
            assertThat(wide.toDoubles()).isEqualTo(Tensor.arange(0, n, 1).toDoubles());
        }
    }

    /** The size of Java's heap is no bound, and the scope keeps no copy. */
    @Test
    void assignsBetweenOverlappingViewsWithoutJavaArrays() {
        int n = 1 << 18;
        Tensor x = Tensor.arange(new Spec(DType.F32, Shape.of(n), Device.cpu()), 0, 1);
        Tensor target = x.narrow(0, 1, n - 1);
        Tensor source = x.narrow(0, 0, n - 1);
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        int owned = scope.size();
        long allocated = 0;
        for (int i = 0; i < 2; i++) {
            long before = threads.getCurrentThreadAllocatedBytes();
            Tensor.apply(new Update.Assign(), target, source);
            allocated = threads.getCurrentThreadAllocatedBytes() - before;
        }
        assertThat(allocated).isLessThan(n);
        assertThat(scope.size()).isEqualTo(owned);
        assertThat(x.narrow(0, 0, 4).toDoubles()).containsExactly(0, 0, 0, 1);
    }

    /** In f64 the numbers beside a middle between two bf16 numbers would first be rounded to that middle. */
    @Test
    void roundsLongsOnce() {
        long middle = (1L << 60) + (1L << 52);
        long next = (1L << 60) + (3L << 52);
        for (Device device : new Device[] {Device.cpu(), Device.reference()}) {
            Tensor x = Tensor.of(new long[] {middle - 1, middle + 1, -middle - 1, next - 1, next + 1, Long.MIN_VALUE});
            assertThat(x.to(device).to(DType.BF16).to(DType.F64).toDoubles()).as(device.toString()).containsExactly(
                    0x1p60, 0x1.02p60, -0x1.02p60, 0x1.02p60, 0x1.04p60, -0x1p63);
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"F32", "F64", "F16"})
    void drawsWhatTheRecordsDefine(DType type) {
        for (int n : new int[] {0, 1, 5, 20_003}) {
            Spec spec = new Spec(type, Shape.of(n), Device.cpu());
            Random.Uniform uniform = new Random.Uniform(spec, -1, 3, 42, 1L << 33);
            drawn(uniform, n, uniform::at);
            Random.Normal normal = new Random.Normal(spec, 1, 2, -7, 5);
            drawn(normal, n, normal::at);
            Random.Bernoulli bernoulli = new Random.Bernoulli(spec, 0.3, 1, 0);
            drawn(bernoulli, n, i -> bernoulli.at(i) ? 1 : 0);
            Random.Integers integers = new Random.Integers(new Spec(DType.I64, Shape.of(n), Device.cpu()), -5,
                    1L << 31, 1, 9);
            drawn(integers, n, integers::at);
        }
    }

    private static void drawn(Op op, int n, LongToDoubleFunction at) {
        Tensor y = Tensor.compute(op);
        double[] expected = new double[n];
        Arrays.setAll(expected, at::applyAsDouble);
        assertThat(y.toDoubles()).containsExactly(Tensor.of(expected, n).to(y.dtype()).toDoubles());
    }

    @Test
    void dropsTheSameElementsWhateverTheLayout() {
        Random.Dropout op = new Random.Dropout(0.25, 3, 11);
        for (Tensor x : List.of(random(DType.F32, 1, 50, 41), random(DType.F32, 2, 41, 50).permute(1, 0))) {
            double[] in = x.toDoubles();
            double[] out = Tensor.compute(op, x).toDoubles();
            for (int i = 0; i < in.length; i++) {
                assertThat(out[i]).isCloseTo(op.keeps(i) ? in[i] / 0.75 : 0, within(1e-6));
            }
        }
    }

    private static void same(Op op, double tolerance, Tensor... operands) {
        Tensor[] reference = new Tensor[operands.length];
        for (int k = 0; k < operands.length; k++) {
            reference[k] = operands[k].to(Device.reference());
        }
        close(Tensor.compute(op, operands), Tensor.compute(op, reference), tolerance, op);
    }

    private static void close(Tensor actual, Tensor expected, double tolerance, Op op) {
        assertThat(actual.shape()).isEqualTo(expected.shape());
        assertThat(actual.toDoubles()).as(op.toString()).containsExactly(expected.toDoubles(), within(tolerance));
    }

    private static Tensor random(DType type, long seed, long... shape) {
        double[] values = new SplittableRandom(seed).doubles(Shape.of(shape).count(), -2, 2).toArray();
        return Tensor.of(values, shape).to(type);
    }
}
