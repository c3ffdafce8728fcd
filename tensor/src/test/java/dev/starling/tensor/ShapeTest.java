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
}
