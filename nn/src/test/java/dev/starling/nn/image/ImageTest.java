package dev.starling.nn.image;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.layer.Resize;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.awt.Graphics2D;
import java.awt.RenderingHints;
import java.awt.image.BufferedImage;
import java.util.Arrays;
import java.util.Random;
import java.util.random.RandomGenerator;
import org.junit.jupiter.api.Test;

class ImageTest {
    private static Image image(int channels, int height, int width, double... pixels) {
        float[] floats = new float[pixels.length];
        for (int i = 0; i < floats.length; i++) {
            floats[i] = (float) pixels[i];
        }
        return new Image(channels, height, width, floats);
    }

    private static Image random(long seed, int channels, int height, int width) {
        Random random = new Random(seed);
        Image image = Image.black(channels, height, width);
        for (int i = 0; i < image.pixels().length; i++) {
            image.pixels()[i] = random.nextFloat();
        }
        return image;
    }

    private static Image copy(Image image) {
        return new Image(image.channels(), image.height(), image.width(), image.pixels().clone());
    }

    /** Returns random numbers that are all the same. */
    private static RandomGenerator always(double number) {
        return new RandomGenerator() {
            @Override
            public long nextLong() {
                return (long) (number * 0x1p63) << 1;
            }
        };
    }

    @Test
    void resizesAsTheLayerDoes() {
        int[][] sizes = {{4, 6, 4, 6}, {4, 6, 8, 3}, {5, 7, 2, 9}, {9, 3, 4, 1}, {1, 1, 3, 3}, {2, 16, 1, 5}};
        for (int[] size : sizes) {
            Image image = random(1, 3, size[0], size[1]);
            try (Scope scope = Scope.open()) {
                float[] expected = new Resize(size[2], size[3], true).forward(Tensor.of(image.pixels(), 1, 3, size[0],
                        size[1])).toFloats();
                assertThat(image.resize(size[2], size[3]).pixels()).as(Arrays.toString(size)).containsExactly(expected,
                        within(2e-6f));
            }
        }
    }

    @Test
    void resizesAlmostAsTheJdkDoes() {
        int size = 12;
        BufferedImage source = new BufferedImage(size, size, BufferedImage.TYPE_INT_RGB);
        Image image = Image.black(3, size, size);
        for (int y = 0; y < size; y++) {
            for (int x = 0; x < size; x++) {
                int[] rgb = {20 * x, 20 * y, (int) (127 + 100 * Math.sin(x / 3.0) * Math.cos(y / 4.0))};
                source.setRGB(x, y, rgb[0] << 16 | rgb[1] << 8 | rgb[2]);
                for (int c = 0; c < 3; c++) {
                    image.pixels()[(c * size + y) * size + x] = rgb[c] / 255f;
                }
            }
        }
        BufferedImage target = new BufferedImage(2 * size, 2 * size, BufferedImage.TYPE_INT_RGB);
        Graphics2D graphics = target.createGraphics();
        graphics.setRenderingHint(RenderingHints.KEY_INTERPOLATION, RenderingHints.VALUE_INTERPOLATION_BILINEAR);
        graphics.drawImage(source, 0, 0, 2 * size, 2 * size, null);
        graphics.dispose();
        Image resized = image.resize(2 * size, 2 * size);
        double difference = 0;
        for (int y = 0; y < 2 * size; y++) {
            for (int x = 0; x < 2 * size; x++) {
                for (int c = 0; c < 3; c++) {
                    difference += Math.abs((target.getRGB(x, y) >> 16 - 8 * c & 0xff) / 255.0
                            - resized.pixels()[(c * 2 * size + y) * 2 * size + x]) / (12.0 * size * size);
                }
            }
        }
        assertThat(difference).as("mean difference").isLessThan(0.02);
    }

    @Test
    void crops() {
        Image image = image(1, 2, 3, 1, 2, 3, 4, 5, 6);
        assertThat(image.crop(0, 1, 2, 2).pixels()).containsExactly(2, 3, 5, 6);
        assertThat(image.crop(-1, -1, 3, 3).pixels()).containsExactly(0, 0, 0, 0, 1, 2, 0, 4, 5);
        assertThat(image.crop(1, 2, 2, 3).pixels()).containsExactly(6, 0, 0, 0, 0, 0);
        assertThat(image.crop(5, -9, 1, 2).pixels()).containsExactly(0, 0);
        RandomGenerator random = new Random(1);
        assertThat(Transforms.centerCrop(2, 1).apply(copy(image), random).pixels()).containsExactly(2, 5);
        assertThat(Transforms.centerCrop(2, 5).apply(copy(image), random).pixels()).containsExactly(0, 1, 2, 3, 0, 0,
                4, 5, 6, 0);
        assertThat(Transforms.randomCrop(2, 3, 0).apply(copy(image), random).pixels()).isEqualTo(image.pixels());
        boolean[][] seen = new boolean[3][3];
        for (int i = 0; i < 200; i++) {
            Image part = Transforms.randomCrop(2, 3, 1).apply(image(1, 2, 3, 1, 1, 1, 1, 1, 1), random);
            float[] p = part.pixels();
            int top = p[0] + p[1] + p[2] == 0 ? 0 : p[3] + p[4] + p[5] == 0 ? 2 : 1;
            int left = p[0] + p[3] == 0 ? 0 : p[2] + p[5] == 0 ? 2 : 1;
            seen[top][left] = true;
        }
        assertThat(seen).isDeepEqualTo(new boolean[][] {{true, true, true}, {true, true, true}, {true, true, true}});
        assertThat(Transforms.randomCrop(4, 4, 0).apply(image(1, 1, 1, 7), random).pixels()).containsOnlyOnce(7)
                .contains(0);
    }

    @Test
    void mirrorsAndTurns() {
        Image image = image(1, 3, 3, 1, 2, 3, 4, 5, 6, 7, 8, 9);
        assertThat(copy(image).flip().pixels()).containsExactly(3, 2, 1, 6, 5, 4, 9, 8, 7);
        assertThat(copy(image).flipVertically().pixels()).containsExactly(7, 8, 9, 4, 5, 6, 1, 2, 3);
        assertThat(image.rotate(0).pixels()).isEqualTo(image.pixels());
        // Counter-clockwise, the right column becomes the top row.
        assertThat(image.rotate(90).pixels()).containsExactly(new float[] {3, 6, 9, 2, 5, 8, 1, 4, 7}, within(1e-5f));
        assertThat(image.rotate(180).pixels()).containsExactly(new float[] {9, 8, 7, 6, 5, 4, 3, 2, 1}, within(1e-5f));
        assertThat(Transforms.randomRotation(0).apply(copy(image), always(0.3)).pixels()).isEqualTo(image.pixels());
        assertThat(Transforms.randomFlip().apply(copy(image), always(0.4)).pixels()).startsWith(3, 2, 1);
        assertThat(Transforms.randomFlip().apply(copy(image), always(0.6)).pixels()).startsWith(1, 2, 3);
        assertThat(Transforms.randomVerticalFlip().apply(copy(image), always(0.4)).pixels()).startsWith(7, 8, 9);
    }

    @Test
    void resizesRandomParts() {
        Image grey = Image.black(3, 9, 20);
        Arrays.fill(grey.pixels(), 0.5f);
        RandomGenerator random = new Random(2);
        for (int i = 0; i < 50; i++) {
            Image part = Transforms.randomResizedCrop(4, 6, 0.05, 1).apply(copy(grey), random);
            assertThat(part.height()).isEqualTo(4);
            assertThat(part.width()).isEqualTo(6);
            float[] expected = new float[72];
            Arrays.fill(expected, 0.5f);
            assertThat(part.pixels()).containsExactly(expected, within(1e-5f));
        }
        // No part of the whole area fits with such a ratio: the centre is used.
        Image wide = image(1, 1, 5, 1, 2, 3, 4, 5);
        assertThat(Transforms.randomResizedCrop(1, 1, 1, 1).apply(wide, random).pixels()).containsExactly(3);
        assertThat(Transforms.resize(4).apply(copy(grey), random).width()).isEqualTo(9);
    }

    @Test
    void changesColours() {
        Image image = image(3, 1, 2, 0.2, 0.6, 0.4, 0.6, 0.8, 0.6);
        assertThat(Transforms.colorJitter(0, 0, 0).apply(copy(image), new Random(1)).pixels()).containsExactly(
                image.pixels(), within(1e-6f));
        // The drawn number 0 gives the factor 1 - x.
        assertThat(Transforms.colorJitter(0.5, 0, 0).apply(copy(image), always(0)).pixels()).containsExactly(
                new float[] {0.1f, 0.3f, 0.2f, 0.3f, 0.4f, 0.3f}, within(1e-6f));
        // Without saturation a pixel is grey: 0.299·0.2 + 0.587·0.4 + 0.114·0.8 = 0.3858.
        assertThat(Transforms.colorJitter(0, 0, 1).apply(copy(image), always(0)).pixels()).containsExactly(
                new float[] {0.3858f, 0.6f, 0.3858f, 0.6f, 0.3858f, 0.6f}, within(1e-6f));
        // Without contrast all pixels have the mean brightness.
        assertThat(Transforms.colorJitter(0, 1, 0).apply(copy(image), always(0)).pixels()).containsExactly(
                new float[] {0.4929f, 0.4929f, 0.4929f, 0.4929f, 0.4929f, 0.4929f}, within(1e-6f));
        RandomGenerator random = new Random(3);
        for (int i = 0; i < 50; i++) {
            for (float pixel : Transforms.colorJitter(2, 2, 2).apply(random(i, 3, 2, 2), random).pixels()) {
                assertThat(pixel).isBetween(0f, 1f);
            }
        }
        assertThat(Transforms.normalize(new float[] {0.2f, 0.4f, 0.6f}, new float[] {1, 2, 0.5f}).apply(copy(image),
                random).pixels()).containsExactly(new float[] {0, 0.4f, 0, 0.1f, 0.4f, 0}, within(1e-6f));
        assertThat(Transforms.normalize(new float[] {0.5f}, new float[] {0.5f}).apply(image(1, 1, 2, 0, 1), random)
                .pixels()).containsExactly(-1, 1);
    }

    @Test
    void findsTheMeanBrightnessOfALargeImage() {
        Image image = Image.black(1, 1024, 1024);
        Arrays.fill(image.pixels(), 0.62f);
        // Without contrast all pixels have the mean brightness.
        assertThat(Transforms.colorJitter(0, 1, 0).apply(image, always(0)).pixels()[0]).isCloseTo(0.62f, within(1e-6f));
    }

    @Test
    void cutsOutASquare() {
        Image white = Image.black(2, 5, 5);
        Arrays.fill(white.pixels(), 1);
        assertThat(copy(white).clear(1, 2, 2, 2).pixels()).containsExactly(
                1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1);
        assertThat(copy(white).clear(-3, -3, 100, 4).crop(0, 0, 5, 2).pixels()).startsWith(0, 1, 0, 1);
        RandomGenerator random = new Random(4);
        for (int i = 0; i < 50; i++) {
            float[] pixels = Transforms.cutOut(3).apply(copy(white), random).pixels();
            int cleared = 0;
            for (float pixel : pixels) {
                cleared += pixel == 0 ? 1 : 0;
            }
            assertThat(cleared).isIn(2 * 4, 2 * 6, 2 * 9);
        }
    }

    @Test
    void refusesWrongArguments() {
        assertThatThrownBy(() -> new Image(1, 2, 2, new float[3])).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Image.black(1 << 20, 1 << 20, 1 << 20)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.resize(0, 1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.randomCrop(1, 1, -1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.randomResizedCrop(1, 1, 0.5, 0.4)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.colorJitter(-1, 0, 0)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.normalize(new float[] {0}, new float[] {0}))
                .isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Transforms.normalize(new float[2], new float[] {1, 1}).apply(random(1, 3, 1, 1),
                new Random(1))).hasMessageContaining("3 channels");
    }
}
