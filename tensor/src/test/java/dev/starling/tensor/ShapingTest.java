package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Rearrangements against NumPy 2.4's results. */
class ShapingTest {
    private static void check(Tensor actual, String shape, long... elements) {
        assertThat(actual.shape()).hasToString(shape);
        assertThat(actual.toLongs()).containsExactly(elements);
    }

    @ParameterizedTest
    @ValueSource(strings = {"reference", "cpu"})
    void rearrangesAsNumPyDoes(String device) {
        Device.with(Device.of(device, 0), () -> {
            try (Scope scope = Scope.open("test")) {
                rearrangements(Tensor.arange(24).reshape(2, 3, 4), Tensor.arange(12).reshape(3, 4));
            }
            return null;
        });
    }

    private static void rearrangements(Tensor x, Tensor y) {
        check(x.movedim(0, 2), "[3, 4, 2]", 0, 12, 1, 13, 2, 14, 3, 15, 4, 16, 5, 17, 6, 18, 7, 19, 8, 20, 9, 21, 10,
                22, 11, 23);
        check(x.movedim(-1, 0), "[4, 2, 3]", 0, 4, 8, 12, 16, 20, 1, 5, 9, 13, 17, 21, 2, 6, 10, 14, 18, 22, 3, 7,
                11, 15, 19, 23);
        check(x.movedim(1, 1).narrow(0, 0, 1), "[1, 3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        check(y.tile(2), "[3, 8]", 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11);
        check(y.narrow(1, 0, 2).tile(2, 1, 2), "[2, 3, 4]", 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 0, 1, 0, 1, 4, 5, 4,
                5, 8, 9, 8, 9);
        check(y.narrow(1, 0, 2).tile(1, 0), "[3, 0]");
        check(y.narrow(1, 1, 2).repeat(1, 3), "[3, 6]", 1, 1, 1, 2, 2, 2, 5, 5, 5, 6, 6, 6, 9, 9, 9, 10, 10, 10);
        check(y.repeat(0, 2), "[6, 4]", 0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7, 8, 9, 10, 11, 8, 9, 10, 11);
        check(y.roll(1, 1), "[3, 4]", 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10);
        check(y.roll(0, -4), "[3, 4]", 4, 5, 6, 7, 8, 9, 10, 11, 0, 1, 2, 3);
        check(y.roll(-1, 8), "[3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
        check(y.tril(0), "[3, 4]", 0, 0, 0, 0, 4, 5, 0, 0, 8, 9, 10, 0);
        check(y.tril(-1), "[3, 4]", 0, 0, 0, 0, 4, 0, 0, 0, 8, 9, 0, 0);
        check(y.triu(1), "[3, 4]", 0, 1, 2, 3, 0, 0, 6, 7, 0, 0, 0, 11);
        check(x.tril(2), "[2, 3, 4]", 0, 1, 2, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 16, 17, 18, 19, 20, 21,
                22, 23);
        check(x.triu(-1), "[2, 3, 4]", 0, 1, 2, 3, 4, 5, 6, 7, 0, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0, 21,
                22, 23);
        check(y.diagonal(0, 0, 1), "[3]", 0, 5, 10);
        check(y.diagonal(-1, 0, 1), "[2]", 4, 9);
        check(y.diagonal(2, 0, 1), "[2]", 2, 7);
        check(y.diagonal(3, 1, 0), "[0]");
        check(y.diagonal(-2, 1, 0), "[2]", 2, 7);
        check(x.diagonal(1, 0, 2), "[3, 2]", 1, 14, 5, 18, 9, 22);
        check(x.diagonal(0, -1, 1), "[2, 3]", 0, 5, 10, 12, 17, 22);
        check(x.diagonal(9, 0, 1), "[4, 0]");
        check(x.trace(), "[2]", 15, 51);
        check(x.narrow(0, 1, 1).narrow(2, 3, 1).squeeze(), "[3]", 15, 19, 23);
        check(x.chunk(2, 3)[1], "[2, 3, 2]", 2, 3, 6, 7, 10, 11, 14, 15, 18, 19, 22, 23);
        check(x.flip(0, 2), "[2, 3, 4]", 15, 14, 13, 12, 19, 18, 17, 16, 23, 22, 21, 20, 3, 2, 1, 0, 7, 6, 5, 4, 11,
                10, 9, 8);
    }

    @Test
    void broadcastsAllToOneShape() {
        Device.with(Device.reference(), () -> {
            Tensor[] b = Tensor.broadcast(Tensor.ones(2, 1), Tensor.ones(3), Tensor.scalar(1));
            assertThat(b).extracting(t -> t.shape().toString()).containsOnly("[2, 3]");
            assertThatThrownBy(() -> Tensor.broadcast(Tensor.ones(2), Tensor.ones(3)))
                    .isInstanceOf(TensorException.class);
            return null;
        });
    }

    @Test
    void chunksCoverTheDimension() {
        Device.with(Device.reference(), () -> {
            assertThat(Tensor.arange(7).chunk(0, 3)).extracting(t -> t.size(0)).containsExactly(3L, 3L, 1L);
            assertThat(Tensor.arange(2).chunk(0, 3)).hasSize(2);
            assertThatThrownBy(() -> Tensor.arange(2).chunk(0, 0)).isInstanceOf(TensorException.class);
            assertThatThrownBy(() -> Tensor.arange(2).split(0, -1)).isInstanceOf(TensorException.class);
            assertThat(Tensor.arange(1, 0, -0.25).toFloats()).containsExactly(1, 0.75f, 0.5f, 0.25f);
            return null;
        });
    }

    @Test
    void repeatsTensorsOfManyDimensions() {
        long[] dims = new long[Shape.MAX_RANK];
        long[] times = new long[Shape.MAX_RANK];
        Arrays.fill(dims, 1);
        Arrays.fill(times, 1);
        dims[2] = 2;
        dims[15] = 3;
        times[2] = 2;
        times[13] = 2;
        times[15] = 2;
        Tensor x = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
        Tensor wide = x.reshape(dims);
        Tensor tiled = wide.tile(times);
        assertThat(tiled.shape()).isEqualTo(wide.shape().with(2, 4).with(13, 2).with(15, 6));
        assertThat(tiled.toFloats()).containsExactly(x.reshape(2, 1, 3).tile(2, 2, 2).toFloats());
        assertThat(x.reshape(2, 1, 1, 1, 1, 1, 1, 3).tile(2, 1, 1, 1, 1, 1, 1, 1, 1).shape())
                .isEqualTo(Shape.of(2, 2, 1, 1, 1, 1, 1, 1, 3));
        assertThat(wide.repeat(2, 2).toFloats()).containsExactly(x.repeat(0, 2).toFloats());
        assertThat(wide.repeat(-1, 2).shape()).isEqualTo(wide.shape().with(15, 6));
        assertThat(wide.repeat(-1, 2).toFloats()).containsExactly(x.repeat(1, 2).toFloats());
        assertThat(wide.repeat(-1, 0).count()).isZero();
    }
}
