package dev.starling.cuda;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Selection;
import dev.starling.tensor.op.Sorting;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Lines that do not fit into a block's shared memory, so that runs are merged; compared with the reference. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class LongLinesTest {
    private static final int N = 9001;

    private final SplittableRandom random = new SplittableRandom(7);

    @Test
    void sortsStably() {
        double[] values = random.doubles(2 * N).map(d -> d < 0.01 ? Double.NaN : Math.floor(d * 100) - 50).toArray();
        compare(new Sorting.Sort(1, false), Tensor.of(values, 2, N));
        compare(new Sorting.Sort(0, true), Tensor.of(values, N, 2));
        compare(new Sorting.TopK(2500, 1, true), Tensor.of(values, 2, N));
    }

    @Test
    void addsInTheOrderOfTheIndex() {
        Tensor index = Tensor.of(random.longs(N, -40, 40).toArray(), N);
        Tensor gradients = Tensor.of(random.doubles(3 * N).toArray(), N, 3);
        compare(new Selection.TakeGradient(0, 40), gradients, index);
        Tensor base = Tensor.of(random.doubles(120).toArray(), 40, 3);
        Tensor places = Tensor.of(random.longs(3 * N, -40, 40).toArray(), N, 3);
        compare(new Selection.ScatterAdd(0), base, places, gradients);
        compare(new Selection.Scatter(0), base, places, gradients);
    }

    private static void compare(Op op, Tensor... inputs) {
        try (Scope scope = Scope.open()) {
            Tensor[] expected = Tensor.apply(op, on(Device.reference(), inputs));
            Tensor[] actual = Tensor.apply(op, on(AnyGpu.device(), inputs));
            for (int i = 0; i < expected.length; i++) {
                assertArrayEquals(expected[i].toDoubles(), actual[i].to(Device.reference()).toDoubles());
            }
        }
    }

    private static Tensor[] on(Device device, Tensor[] inputs) {
        Tensor[] moved = new Tensor[inputs.length];
        java.util.Arrays.setAll(moved, i -> inputs[i].to(device));
        return moved;
    }
}
