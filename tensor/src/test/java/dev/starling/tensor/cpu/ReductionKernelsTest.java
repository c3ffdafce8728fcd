package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.withinPercentage;

import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ReductionKernelsTest {
    private static final Oracle.Kernel KERNEL = (op, in, out) -> ReductionKernels.run((Reduction) op, in[0], out[0]);
    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Axes axes(int... reduced) {
        return new Axes(Arrays.stream(reduced).map(i -> 1 << i).sum());
    }

    private static List<Reduction> reductions(Axes axes, boolean keep) {
        return List.of(new Reduction.Sum(axes, keep), new Reduction.Mean(axes, keep), new Reduction.Max(axes, keep),
                new Reduction.Min(axes, keep));
    }

    private static void check(Tensor x, Axes axes) {
        for (Reduction op : reductions(axes, axes.contains(0))) {
            Oracle.check(KERNEL, op, 2e-6, x);
        }
    }

    @ParameterizedTest
    @ValueSource(longs = {1, 2, 15, 16, 17, 63, 64, 65, 1025, 70_001, 200_000})
    void reducesARow(long n) {
        for (Tensor x : Oracle.layouts(Oracle.random(n, n))) {
            check(x, axes(0));
            Oracle.check(KERNEL, new Reduction.ArgMax(axes(0), false), 0, x);
            Oracle.check(KERNEL, new Reduction.ArgMin(axes(0), true), 0, x);
        }
    }

    @Test
    void reducesAnyDimensionsOfAnyLayout() {
        for (Tensor x : Oracle.layouts(Oracle.random(1, 3, 18, 4, 7))) {
            for (int set = 1; set < 16; set++) {
                int[] chosen = new int[Integer.bitCount(set)];
                for (int i = 0, k = 0; i < 4; i++) {
                    if ((set >> i & 1) != 0) {
                        chosen[k++] = i;
                    }
                }
                check(x, axes(chosen));
                boolean trailing = Integer.bitCount(set + Integer.lowestOneBit(set)) == 1 && set >= 8;
                if (chosen.length == 1 || trailing) {
                    Oracle.check(KERNEL, new Reduction.ArgMax(axes(chosen), false), 0, x);
                    Oracle.check(KERNEL, new Reduction.ArgMin(axes(chosen), true), 0, x);
                }
            }
        }
    }

    @Test
    void reducesTallAndWideMatrices() {
        for (long[] shape : new long[][] {{3000, 5}, {5, 3000}, {2049, 17}, {1, 1}, {1, 40}, {40, 1}}) {
            Tensor x = Oracle.random(2, shape).add(1);
            check(x, axes(0));
            check(x, axes(1));
            check(x, axes(0, 1));
        }
    }

    @Test
    void reducesBroadcastOperands() {
        check(Oracle.random(3, 1, 19).expand(6, 19), axes(0));
        check(Oracle.random(3, 6, 1).expand(6, 19), axes(1));
    }

    @Test
    void passesOnWhatIsNotFinite() {
        for (int axis = 0; axis < 2; axis++) {
            Tensor x = Oracle.withSpecials(Oracle.random(4, 35, 21));
            check(x, axes(axis));
            Oracle.check(KERNEL, new Reduction.ArgMax(axes(axis), false), 0, x);
            Oracle.check(KERNEL, new Reduction.ArgMin(axes(axis), false), 0, x);
        }
        float inf = Float.POSITIVE_INFINITY;
        Tensor x = Tensor.of(new float[] {inf, inf, -inf, -inf, -0f, 0f, inf, -inf}, 4, 2);
        for (Reduction op : reductions(axes(1), false)) {
            Oracle.check(KERNEL, op, 0, x);
        }
        Oracle.check(KERNEL, new Reduction.ArgMax(axes(1), false), 0, x);
        Oracle.check(KERNEL, new Reduction.ArgMin(axes(1), false), 0, x);
    }

    @Test
    void sumsManyElementsPrecisely() {
        Tensor x = Tensor.full(DType.F32, 0.1, 3_000_000);
        float exact = (float) (3_000_000 * (double) 0.1f);
        assertThat(x.sum().item()).isCloseTo(exact, withinPercentage(1e-4));
        assertThat(x.mean().item()).isCloseTo(0.1f, withinPercentage(1e-4));
    }

    @Test
    void reducesEmptyTensors() {
        Tensor x = Tensor.zeros(0, 3);
        assertThat(x.sum().item()).isZero();
        assertThat(Tensor.compute(new Reduction.Max(axes(1), false), x).count()).isZero();
    }
}
