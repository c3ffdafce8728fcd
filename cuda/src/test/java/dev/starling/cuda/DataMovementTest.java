package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Selection;
import java.util.Arrays;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Copies by tiles and slices by vectors, of shapes that fill them or do not, compared with the reference. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class DataMovementTest {
    private static final Device GPU = AnyGpu.device();

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"U8", "BF16", "F32", "F64"})
    void copiesToAnotherOrderOfDimensions(DType type) {
        try (Scope scope = Scope.open()) {
            Tensor x = random(type, 3, 70, 131);
            same(x, v -> v.permute(0, 2, 1));
            same(x, v -> v.permute(2, 0, 1));
            same(x, v -> v.permute(2, 1, 0));
            same(x, v -> v.narrow(2, 3, 64).permute(0, 2, 1).narrow(2, 1, 64));
            same(random(type, 2, 40, 3, 33), v -> v.permute(3, 0, 2, 1));
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F32", "I32"})
    void addsSlicesInOrder(DType type) {
        try (Scope scope = Scope.open()) {
            long[] index = new SplittableRandom(4).longs(90, 0, 7).toArray();
            for (int inner : new int[] {5, 24}) {
                Tensor g = random(type, 2, index.length, inner);
                Tensor[] sums = new Tensor[2];
                Device[] devices = {GPU, Device.reference()};
                for (int i = 0; i < 2; i++) {
                    sums[i] = Tensor.apply(new Selection.TakeGradient(1, 9), g.to(devices[i]),
                            Tensor.of(index).to(devices[i]))[0];
                }
                assertThat(sums[0].toDoubles()).isEqualTo(sums[1].toDoubles());
            }
        }
    }

    /** More chunks than the threads that add up their counts. */
    @Test
    void findsNonzeroElements() {
        try (Scope scope = Scope.open()) {
            for (long count : new long[] {1, 1024 * 256, 1024 * 300 + 7}) {
                Tensor x = random(DType.U8, count);
                assertThat(x.to(GPU).nonzero().toLongs()).isEqualTo(x.to(Device.reference()).nonzero().toLongs());
            }
        }
    }

    private static void same(Tensor x, UnaryOperator<Tensor> view) {
        assertThat(view.apply(x.to(GPU)).contiguous().toDoubles())
                .isEqualTo(view.apply(x.to(Device.reference())).contiguous().toDoubles());
    }

    /** Returns integers, whose sums are exact. */
    private static Tensor random(DType type, long... dims) {
        long count = Arrays.stream(dims).reduce(1, (a, b) -> a * b);
        return Tensor.of(new SplittableRandom(3).ints(count, 0, 3).asDoubleStream().toArray(), dims).to(type);
    }
}
