package dev.starling.samples.digits;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.LabelledImages;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Drawn digits must be reproducible from seed and index, all different, legible, and not too easy to classify. */
class DigitRendererTest {
    private static final int SIZE = DigitRenderer.PIXELS;

    @Test
    void drawsAnImageFromItsSeedAndIndexOnly() {
        LabelledImages all = new DigitRenderer(7).images(0, 200);
        DigitRenderer other = new DigitRenderer(7);
        byte[] image = new byte[SIZE + 3];
        for (int i = 199; i >= 0; i -= 3) {
            other.draw(i, image, 3);
            assertThat(Arrays.copyOfRange(image, 3, image.length))
                .isEqualTo(Arrays.copyOfRange(all.pixels(), i * SIZE, (i + 1) * SIZE));
        }
        assertThat(new DigitRenderer(8).images(0, 200).pixels()).isNotEqualTo(all.pixels());
    }

    @Test
    void drawsEachDigitEquallyOftenAndAlwaysDifferently() {
        LabelledImages images = new DigitRenderer(1).images(35, 1000);
        int[] counts = new int[10];
        Set<Integer> distinct = new HashSet<>();
        for (int i = 0; i < images.count(); i++) {
            assertThat(images.label(i)).isEqualTo((i + 35) % 10);
            counts[images.label(i)]++;
            distinct.add(Arrays.hashCode(Arrays.copyOfRange(images.pixels(), i * SIZE, (i + 1) * SIZE)));
        }
        assertThat(counts).containsOnly(100);
        assertThat(distinct).hasSize(1000);
    }

    @Test
    void keepsTheInkOnThePaper() {
        LabelledImages images = new DigitRenderer(2).images(0, 2000);
        for (int i = 0; i < images.count(); i++) {
            int ink = 0;
            int border = 0;
            for (int y = 0; y < 28; y++) {
                for (int x = 0; x < 28; x++) {
                    boolean dark = (images.pixels()[i * SIZE + y * 28 + x] & 0xff) > 100;
                    ink += dark ? 1 : 0;
                    border += dark && (x == 0 || y == 0 || x == 27 || y == 27) ? 1 : 0;
                }
            }
            assertThat(ink).as("ink of image %d", i).isBetween(10, 300);
            assertThat(border).as("ink on the border of image %d", i).isLessThan(6);
        }
    }

    @Test
    void matchesThePublishedMeanAndDeviation() {
        LabelledImages images = new DigitRenderer(3).images(0, 5000);
        double sum = 0;
        double squares = 0;
        for (byte pixel : images.pixels()) {
            double value = (pixel & 0xff) / 255.0;
            sum += value;
            squares += value * value;
        }
        double mean = sum / images.pixels().length;
        assertThat(mean).isBetween(DigitRenderer.MEAN - 0.002, DigitRenderer.MEAN + 0.002);
        assertThat(Math.sqrt(squares / images.pixels().length - mean * mean))
            .isBetween(DigitRenderer.STD - 0.003, DigitRenderer.STD + 0.003);
    }

    /** Two classical classifiers: nearest centroids must fail often, nearest neighbours must mostly succeed. */
    @Test
    void isLearnableButNotTrivial() {
        DigitRenderer renderer = new DigitRenderer(4);
        LabelledImages train = renderer.images(0, 4000);
        LabelledImages test = renderer.images(4000, 400);
        assertThat(nearest(centroids(train), test)).isBetween(0.45, 0.85);
        assertThat(nearest(train, test)).isBetween(0.80, 0.985);
    }

    private static LabelledImages centroids(LabelledImages images) {
        int[] sums = new int[10 * SIZE];
        for (int i = 0; i < images.count(); i++) {
            for (int p = 0; p < SIZE; p++) {
                sums[images.label(i) * SIZE + p] += images.pixels()[i * SIZE + p] & 0xff;
            }
        }
        byte[] means = new byte[sums.length];
        for (int i = 0; i < sums.length; i++) {
            means[i] = (byte) (sums[i] * 10 / images.count());
        }
        return new LabelledImages(1, 28, 28, 10, means, new byte[] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    }

    private static double nearest(LabelledImages known, LabelledImages test) {
        int right = 0;
        for (int i = 0; i < test.count(); i++) {
            int best = Integer.MAX_VALUE;
            int answer = -1;
            for (int k = 0; k < known.count(); k++) {
                int distance = 0;
                for (int p = 0; p < SIZE; p++) {
                    int d = (test.pixels()[i * SIZE + p] & 0xff) - (known.pixels()[k * SIZE + p] & 0xff);
                    distance += d * d;
                }
                if (distance < best) {
                    best = distance;
                    answer = known.label(k);
                }
            }
            right += answer == test.label(i) ? 1 : 0;
        }
        return right / (double) test.count();
    }
}
