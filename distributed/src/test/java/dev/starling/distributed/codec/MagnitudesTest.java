package dev.starling.distributed.codec;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class MagnitudesTest {
    private static final float[] SPECIAL = {0, -0f, 1, -1, Float.MIN_VALUE, -Float.MAX_VALUE, Float.NaN,
        Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY};

    /** Compares with sorting. */
    @Test
    void findsTheKthLargest() {
        Random random = new Random(1);
        Magnitudes magnitudes = new Magnitudes();
        for (int trial = 0; trial < 1000; trial++) {
            float[][] arrays = new float[1 + random.nextInt(4)][];
            int kind = random.nextInt(3);
            int count = 0;
            for (int a = 0; a < arrays.length; a++) {
                arrays[a] = new float[random.nextInt(60)];
                count += arrays[a].length;
                for (int i = 0; i < arrays[a].length; i++) {
                    arrays[a][i] = kind == 0 ? SPECIAL[random.nextInt(SPECIAL.length)]
                            : kind == 1 ? random.nextInt(5) - 2 : (float) random.nextGaussian() * 1e-5f;
                }
            }
            int[] sorted = Arrays.stream(arrays).flatMapToInt(array -> {
                int[] all = new int[array.length];
                Arrays.setAll(all, i -> Magnitudes.of(array[i]));
                return Arrays.stream(all);
            }).sorted().toArray();
            int k = random.nextInt(count + 1);
            int threshold = magnitudes.largest(arrays, k);
            if (k == 0) {
                assertThat(threshold).isEqualTo(Integer.MAX_VALUE);
                assertThat(magnitudes.atThreshold()).isZero();
            } else {
                assertThat(threshold).isEqualTo(sorted[count - k]);
                long above = Arrays.stream(sorted).filter(each -> each > threshold).count();
                assertThat(magnitudes.atThreshold()).isEqualTo((int) (k - above)).isPositive();
            }
        }
    }
}
