package dev.starling.study;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Mode;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.Test;

class VariationTest {
    private static final int IMAGES = 200;
    private static final int HEIGHT = 5;
    private static final int WIDTH = 4;
    private static final int MARGIN = 2;

    @Test
    void shiftsAndMirrorsWholeImages() {
        try (Scope scope = Scope.open("test")) {
            Tensor x = Generator.seeded(3).uniform(IMAGES, 2, HEIGHT, WIDTH);
            Tensor varied = Mode.training(Generator.seeded(1), () -> new Variation(MARGIN).forward(x));
            assertThat(varied.shape()).isEqualTo(x.shape());
            float[] from = x.toFloats();
            float[] to = varied.contiguous().toFloats();
            Set<String> seen = new HashSet<>();
            int size = 2 * HEIGHT * WIDTH;
            for (int i = 0; i < IMAGES; i++) {
                seen.add(variation(Arrays.copyOfRange(from, i * size, (i + 1) * size),
                        Arrays.copyOfRange(to, i * size, (i + 1) * size)));
            }
            assertThat(seen).hasSize(2 * (2 * MARGIN + 1) * (2 * MARGIN + 1));
        }
    }

    /** Returns the shift that turned one image into the other, and whether it was mirrored. */
    private static String variation(float[] from, float[] to) {
        for (int dy = -MARGIN; dy <= MARGIN; dy++) {
            for (int dx = -MARGIN; dx <= MARGIN; dx++) {
                for (boolean mirrored : new boolean[] {false, true}) {
                    if (Arrays.equals(vary(from, dy, dx, mirrored), to)) {
                        return dy + " " + dx + " " + mirrored;
                    }
                }
            }
        }
        throw new AssertionError("not a shift of " + Arrays.toString(from) + ": " + Arrays.toString(to));
    }

    private static float[] vary(float[] image, int dy, int dx, boolean mirrored) {
        float[] result = new float[image.length];
        for (int c = 0; c < 2; c++) {
            for (int y = 0; y < HEIGHT; y++) {
                for (int x = 0; x < WIDTH; x++) {
                    int fromY = y + dy;
                    int fromX = (mirrored ? WIDTH - 1 - x : x) + dx;
                    if (fromY >= 0 && fromY < HEIGHT && fromX >= 0 && fromX < WIDTH) {
                        result[(c * HEIGHT + y) * WIDTH + x] = image[(c * HEIGHT + fromY) * WIDTH + fromX];
                    }
                }
            }
        }
        return result;
    }

    @Test
    void leavesImagesAloneOutsideOfTraining() {
        try (Scope scope = Scope.open("test")) {
            Tensor x = Generator.seeded(3).uniform(2, 3, HEIGHT, WIDTH);
            assertThat(new Variation(MARGIN).forward(x)).isSameAs(x);
        }
    }
}
