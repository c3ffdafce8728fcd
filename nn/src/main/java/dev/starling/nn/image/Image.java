package dev.starling.nn.image;

import dev.starling.tensor.TensorException;
import java.util.Arrays;

/**
 * An image while it is prepared: floats, from 0 for black to 1, {@code [C, H, W]}. A {@link Transform} owns the image
 * that it gets and may change it. Not safe for concurrent use.
 *
 * @param channels colour planes: 1 for grey, 3 for red, green and blue
 * @param height rows
 * @param width columns
 * @param pixels the elements, shared and not copied
 */
public record Image(int channels, int height, int width, float[] pixels) {
    private static final int MAX_ELEMENTS = 1 << 28;

    /** Checks that there are as many pixels as the sizes say. */
    public Image {
        if (channels < 1 || height < 1 || width < 1 || pixels.length != (long) channels * height * width) {
            throw TensorException.argument("image", "expected positive sizes and channels x height x width = "
                    + channels + "x" + height + "x" + width + " pixels, found " + pixels.length, "correct them");
        }
    }

    /** Returns a black image. */
    public static Image black(int channels, int height, int width) {
        long elements = (long) Math.max(0, channels) * Math.max(0, height);
        if (elements > MAX_ELEMENTS || elements * Math.max(0, width) > MAX_ELEMENTS) {
            throw TensorException.argument("image", "an image has at most " + MAX_ELEMENTS + " elements, got "
                    + channels + "x" + height + "x" + width, "use a smaller size");
        }
        return new Image(channels, height, width, new float[(int) (elements * Math.max(0, width))]);
    }

    /**
     * Returns the image in another size. A pixel is a weighted mean of all pixels that it covers, or, in a larger
     * image, of the nearest ones: triangular weights, as those of {@link dev.starling.nn.layer.Resize} with
     * antialiasing.
     */
    public Image resize(int toHeight, int toWidth) {
        return width == toWidth && height == toHeight ? this : alongRows(toWidth).alongColumns(toHeight);
    }

    private Image alongRows(int to) {
        if (to == width) {
            return this;
        }
        Image resized = black(channels, height, to);
        for (int x = 0; x < to; x++) {
            Weights weights = Weights.of(x, to, width);
            for (int row = 0; row < channels * height; row++) {
                float sum = 0;
                for (int i = 0; i < weights.values.length; i++) {
                    sum += weights.values[i] * pixels[row * width + weights.first + i];
                }
                resized.pixels[row * to + x] = sum;
            }
        }
        return resized;
    }

    private Image alongColumns(int to) {
        if (to == height) {
            return this;
        }
        Image resized = black(channels, to, width);
        for (int y = 0; y < to; y++) {
            Weights weights = Weights.of(y, to, height);
            for (int c = 0; c < channels; c++) {
                int target = (c * to + y) * width;
                for (int i = 0; i < weights.values.length; i++) {
                    int source = (c * height + weights.first + i) * width;
                    for (int x = 0; x < width; x++) {
                        resized.pixels[target + x] += weights.values[i] * pixels[source + x];
                    }
                }
            }
        }
        return resized;
    }

    /**
     * What a pixel of a resized dimension is computed from.
     *
     * @param first the first pixel that counts
     * @param values the weights of this pixel and those behind it; their sum is 1
     */
    private record Weights(int first, float[] values) {
        static Weights of(int pixel, int to, int from) {
            double ratio = (double) from / to;
            double support = Math.max(1, ratio);
            double centre = (pixel + 0.5) * ratio - 0.5;
            int first = Math.max(0, (int) Math.floor(centre - support) + 1);
            int last = Math.min(from - 1, (int) Math.ceil(centre + support) - 1);
            double[] weights = new double[last - first + 1];
            double sum = 0;
            for (int i = 0; i < weights.length; i++) {
                weights[i] = Math.max(0, 1 - Math.abs(first + i - centre) / support);
                sum += weights[i];
            }
            float[] values = new float[weights.length];
            for (int i = 0; i < values.length; i++) {
                values[i] = (float) (weights[i] / sum);
            }
            return new Weights(first, values);
        }
    }

    /** Returns a part of the image. What lies outside of the image is black. */
    public Image crop(int top, int left, int toHeight, int toWidth) {
        Image part = black(channels, toHeight, toWidth);
        int from = Math.clamp(-(long) left, 0, toWidth);
        int to = Math.clamp((long) width - left, from, toWidth);
        for (int c = 0; c < channels; c++) {
            for (int y = 0; y < toHeight; y++) {
                long source = (long) y + top;
                if (source >= 0 && source < height && to > from) {
                    System.arraycopy(pixels, (c * height + (int) source) * width + left + from, part.pixels,
                            (c * toHeight + y) * toWidth + from, to - from);
                }
            }
        }
        return part;
    }

    /** Mirrors the image left to right, in place. */
    public Image flip() {
        for (int row = 0; row < channels * height; row++) {
            for (int i = row * width, k = i + width - 1; i < k; i++, k--) {
                swap(i, k);
            }
        }
        return this;
    }

    /** Mirrors the image top to bottom, in place. */
    public Image flipVertically() {
        for (int c = 0; c < channels; c++) {
            for (int y = 0; y < height / 2; y++) {
                for (int x = 0; x < width; x++) {
                    swap((c * height + y) * width + x, (c * height + height - 1 - y) * width + x);
                }
            }
        }
        return this;
    }

    private void swap(int i, int k) {
        float pixel = pixels[i];
        pixels[i] = pixels[k];
        pixels[k] = pixel;
    }

    /**
     * Returns the image turned about its centre, in the same size, by linear interpolation. What lies outside of the
     * image is black.
     *
     * @param degrees counter-clockwise
     */
    public Image rotate(double degrees) {
        Image rotated = black(channels, height, width);
        double cos = Math.cos(Math.toRadians(degrees));
        double sin = Math.sin(Math.toRadians(degrees));
        double middleY = (height - 1) / 2.0;
        double middleX = (width - 1) / 2.0;
        for (int y = 0; y < height; y++) {
            for (int x = 0; x < width; x++) {
                double sourceX = middleX + (x - middleX) * cos - (y - middleY) * sin;
                double sourceY = middleY + (x - middleX) * sin + (y - middleY) * cos;
                for (int c = 0; c < channels; c++) {
                    rotated.pixels[(c * height + y) * width + x] = between(c, sourceY, sourceX);
                }
            }
        }
        return rotated;
    }

    private float between(int channel, double y, double x) {
        int top = (int) Math.floor(y);
        int left = (int) Math.floor(x);
        float down = (float) (y - top);
        float right = (float) (x - left);
        return (1 - down) * ((1 - right) * at(channel, top, left) + right * at(channel, top, left + 1))
                + down * ((1 - right) * at(channel, top + 1, left) + right * at(channel, top + 1, left + 1));
    }

    private float at(int channel, int y, int x) {
        return y < 0 || y >= height || x < 0 || x >= width ? 0 : pixels[(channel * height + y) * width + x];
    }

    /** Sets a part of the image to 0, in place. The part may extend beyond the image. */
    public Image clear(int top, int left, int ofHeight, int ofWidth) {
        int from = Math.clamp(left, 0, width);
        int to = Math.clamp((long) left + ofWidth, from, width);
        for (int c = 0; c < channels; c++) {
            for (int y = Math.clamp(top, 0, height); y < Math.clamp((long) top + ofHeight, 0, height); y++) {
                Arrays.fill(pixels, (c * height + y) * width + from, (c * height + y) * width + to, 0);
            }
        }
        return this;
    }
}
