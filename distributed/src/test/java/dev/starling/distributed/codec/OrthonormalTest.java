package dev.starling.distributed.codec;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class OrthonormalTest {
    private static final int LENGTH = 20;

    private static double product(float[] vectors, int a, int b) {
        double sum = 0;
        for (int i = 0; i < LENGTH; i++) {
            sum += (double) vectors[a * LENGTH + i] * vectors[b * LENGTH + i];
        }
        return sum;
    }

    private static float[] random(int count, double scale) {
        Random random = new Random(count);
        float[] all = new float[count * LENGTH];
        for (int i = 0; i < all.length; i++) {
            all[i] = (float) (random.nextGaussian() * scale);
        }
        return all;
    }

    @Test
    void makesVectorsOrthonormalAndKeepsTheirSpan() {
        for (double scale : new double[] {1, 1e-30, 1e30}) {
            float[] before = random(5, scale);
            float[] after = before.clone();
            new Orthonormal(1).apply(after, LENGTH, false);
            for (int a = 0; a < 5; a++) {
                for (int b = 0; b < 5; b++) {
                    assertThat(product(after, a, b)).isCloseTo(a == b ? 1 : 0, within(1e-6));
                }
            }
            // Each vector is the sum of its projections.
            for (int a = 0; a < 5; a++) {
                for (int i = 0; i < LENGTH; i++) {
                    double sum = 0;
                    for (int b = 0; b < 5; b++) {
                        double along = 0;
                        for (int j = 0; j < LENGTH; j++) {
                            along += (double) before[a * LENGTH + j] * after[b * LENGTH + j];
                        }
                        sum += along * after[b * LENGTH + i];
                    }
                    assertThat(sum).isCloseTo(before[a * LENGTH + i], within(1e-5 * scale));
                }
            }
        }
    }

    @Test
    void replacesVectorsThatDependOnOthers() {
        float[] vectors = random(4, 1);
        System.arraycopy(vectors, 0, vectors, LENGTH, LENGTH);
        Arrays.fill(vectors, 2 * LENGTH, 3 * LENGTH, 0);
        vectors[3 * LENGTH + 4] = Float.NaN;
        float[] zeros = vectors.clone();
        new Orthonormal(1).apply(zeros, LENGTH, false);
        assertThat(product(zeros, 0, 0)).isCloseTo(1, within(1e-6));
        assertThat(Arrays.copyOfRange(zeros, LENGTH, 4 * LENGTH)).containsOnly(0);
        float[] again = vectors.clone();
        new Orthonormal(1).apply(vectors, LENGTH, true);
        new Orthonormal(1).apply(again, LENGTH, true);
        for (int a = 0; a < 4; a++) {
            for (int b = 0; b < 4; b++) {
                assertThat(product(vectors, a, b)).isCloseTo(a == b ? 1 : 0, within(1e-6));
            }
        }
        assertThat(again).containsExactly(vectors);
    }
}
