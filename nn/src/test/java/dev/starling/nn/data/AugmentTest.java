package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;

/** Compares crop, flip and normalisation with their definitions, pixel by pixel. */
class AugmentTest {
    private static final int C = 3;
    private static final int H = 5;
    private static final int W = 7;
    private static final float[] MEAN = {0.1f, 0.5f, 0.9f};
    private static final float[] STD = {0.2f, 0.3f, 1f};

    private final byte[] image = new byte[C * H * W + 4];

    AugmentTest() {
        new Random(7).nextBytes(image);
    }

    @Test
    void normalizesByTheDefinition() {
        float[] out = write(augment(), 1, 0, 0);
        assertMatches(out, 0, 0, false);
    }

    @Test
    void cropsAndFlipsToEveryPositionAboutEquallyOften() {
        int padding = 2;
        Augment augment = augment().randomCrop(padding).randomFlip();
        Map<String, Integer> seen = new HashMap<>();
        int draws = 5000;
        for (int i = 0; i < draws; i++) {
            seen.merge(position(write(augment, 3, i / 100, i % 100), padding), 1, Integer::sum);
        }
        assertThat(seen).hasSize(5 * 5 * 2);
        assertThat(seen.values()).allSatisfy(n -> assertThat(n).isBetween(50, 160)); // 100 +- 6 sigma
    }

    @Test
    void padsWithBlackWhenTheCropLeavesTheImage() {
        Augment augment = augment().randomCrop(9);
        Set<String> seen = new HashSet<>();
        for (int i = 0; i < 400; i++) {
            float[] out = write(augment, 5, 0, i);
            seen.add(isBlack(out) ? "black" : position(out, 9));
        }
        assertThat(seen).hasSizeGreaterThan(60).contains("black");
    }

    @Test
    void dependsOnlyOnSeedEpochAndImage() {
        Augment augment = augment().randomCrop(2).randomFlip();
        for (int i = 0; i < 50; i++) {
            assertThat(write(augment, 11, 2, i)).isEqualTo(write(augment, 11, 2, i));
        }
        assertThat(differing(augment, 11, 2, 11, 3)).isBetween(170, 200); // 2 % collide by chance
        assertThat(differing(augment, 11, 2, 12, 2)).isBetween(170, 200);
    }

    @Test
    void leavesTheRestOfTheTargetAlone() {
        float[] out = new float[C * H * W + 2];
        out[0] = 42;
        out[out.length - 1] = 43;
        augment().randomCrop(3).write(1, 2, 3, image, 4, out, 1);
        assertThat(out[0]).isEqualTo(42);
        assertThat(out[out.length - 1]).isEqualTo(43);
    }

    @Test
    void refusesInvalidParameters() {
        assertThatThrownBy(() -> Augment.normalize(3, 4, 4, new float[3], new float[2]))
            .isInstanceOf(TensorException.class).hasMessageContaining("2 std(s)");
        assertThatThrownBy(() -> Augment.normalize(1, 4, 4, new float[1], new float[1]))
            .isInstanceOf(TensorException.class).hasMessageContaining("above 0");
        assertThatThrownBy(() -> augment().randomCrop(-1))
            .isInstanceOf(TensorException.class).hasMessageContaining("-1");
        // As many pixels, in rows of another length.
        LabelledImages turned = new LabelledImages(C, W, H, 2, new byte[C * H * W], new byte[] {1});
        assertThatThrownBy(() -> ImageDataset.of(turned, augment()))
            .isInstanceOf(TensorException.class).hasMessageContaining("5 rows and 7 columns, got 3, 7 and 5");
    }

    private Augment augment() {
        return Augment.normalize(C, H, W, MEAN, STD);
    }

    private float[] write(Augment augment, long seed, int epoch, int index) {
        float[] out = new float[C * H * W];
        Arrays.fill(out, Float.NaN);
        augment.write(seed, epoch, index, image, 4, out, 0);
        return out;
    }

    private int differing(Augment augment, long seed, int epoch, long otherSeed, int otherEpoch) {
        int count = 0;
        for (int i = 0; i < 200; i++) {
            boolean same = Arrays.equals(write(augment, seed, epoch, i), write(augment, otherSeed, otherEpoch, i));
            count += same ? 0 : 1;
        }
        return count;
    }

    private String position(float[] out, int padding) {
        for (int dy = -padding; dy <= padding; dy++) {
            for (int dx = -padding; dx <= padding; dx++) {
                for (boolean flip : new boolean[] {false, true}) {
                    if (matches(out, dy, dx, flip)) {
                        return dy + "," + dx + "," + flip;
                    }
                }
            }
        }
        throw new AssertionError("no crop of the padded image");
    }

    private boolean isBlack(float[] out) {
        for (int i = 0; i < out.length; i++) {
            int c = i / (H * W);
            if (Math.abs(out[i] - (0 - MEAN[c]) / STD[c]) > 1e-6f) {
                return false;
            }
        }
        return true;
    }

    private boolean matches(float[] out, int dy, int dx, boolean flip) {
        for (int i = 0; i < out.length; i++) {
            if (!(Math.abs(out[i] - expected(i, dy, dx, flip)) < 1e-5f)) {
                return false;
            }
        }
        return true;
    }

    private void assertMatches(float[] out, int dy, int dx, boolean flip) {
        for (int i = 0; i < out.length; i++) {
            assertThat(out[i]).isCloseTo(expected(i, dy, dx, flip), within(1e-5f));
        }
    }

    private float expected(int at, int dy, int dx, boolean flip) {
        int c = at / (H * W);
        int x = at % W;
        int sourceX = (flip ? W - 1 - x : x) + dx;
        int sourceY = at / W % H + dy;
        boolean inside = sourceX >= 0 && sourceX < W && sourceY >= 0 && sourceY < H;
        int value = inside ? image[4 + (c * H + sourceY) * W + sourceX] & 0xff : 0;
        return (value / 255f - MEAN[c]) / STD[c];
    }
}
