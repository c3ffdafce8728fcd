package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;

class ShapeTest {
    /** More shapes than are kept, so that those with the same hash replace each other. */
    @Test
    void isOfTheGivenSizesWhicheverWereMadeBefore() {
        SplittableRandom random = new SplittableRandom(1);
        for (int i = 0; i < 100_000; i++) {
            long[] dims = random.longs(random.nextInt(6), 0, 8).toArray();
            long[] given = dims.clone();
            Shape shape = Shape.of(given);
            Arrays.fill(given, 99);
            long[] strides = new long[dims.length];
            long count = 1;
            for (int d = dims.length - 1; d >= 0; d--) {
                strides[d] = d == dims.length - 1 ? 1 : strides[d + 1] * Math.max(1, dims[d + 1]);
                count *= dims[d];
            }
            assertThat(shape.dims()).isEqualTo(dims);
            assertThat(shape.contiguousStrides()).isEqualTo(strides);
            assertThat(shape.count()).isEqualTo(count);
            assertThat(shape).isEqualTo(Shape.of(dims)).hasSameHashCodeAs(Shape.of(dims));
        }
    }

    @Test
    void keepsItsStridesWhateverTheCallerWritesIntoTheArrays() {
        Tensor x = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 2, 3);
        x.strides()[0] = 1L << 40;
        x.shape().contiguousStrides()[0] = 1L << 40;
        assertThat(x.strides()).containsExactly(3, 1);
        assertThat(Tensor.zeros(2, 3).strides()).containsExactly(3, 1);

        long[] strides = {1, 2};
        Spec spec = x.spec().with(Shape.of(3, 2));
        Tensor first = x.storage().view(spec, strides, 0);
        long[] columns = {1, 3};
        Tensor dense = Storage.allocate(spec, columns);
        Tensor lent = x.storage().lend(spec, columns);
        strides[1] = 1L << 40;
        columns[1] = 1L << 40;
        Tensor second = x.storage().view(spec, new long[] {1, 0}, 1);
        assertThat(first.toFloats()).containsExactly(1, 3, 2, 4, 3, 5);
        assertThat(second.toFloats()).containsExactly(2, 2, 3, 3, 4, 4);
        assertThat(dense.strides()).containsExactly(1, 3);
        assertThat(lent.strides()).containsExactly(1, 3);
        assertThat(first.stride(0)).isEqualTo(1);
        assertThat(first.stride(-1)).isEqualTo(2);
    }
}
