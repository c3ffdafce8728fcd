package dev.starling.nn.image;

import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.random.RandomGenerator;

/** Changes of images for {@link ImageFolder}. Names and meanings follow torchvision. */
public final class Transforms {
    private static final int TRIES = 10;
    /** The logarithm of the ratio of width to height is between this number's negative and this number. */
    private static final double LOG_RATIO = Math.log(4 / 3.0);
    /** The shares of red, green and blue in the brightness of a pixel (ITU-R BT.601). */
    private static final float[] LUMA = {0.299f, 0.587f, 0.114f};

    private Transforms() {
    }

    /** Resizes to a given size. */
    public static Transform resize(int height, int width) {
        requireSize(height, width);
        return (image, random) -> image.resize(height, width);
    }

    /** Resizes so that the shorter side has a given length, with the same ratio of the sides. */
    public static Transform resize(int shorter) {
        requireSize(shorter, shorter);
        return (image, random) -> {
            double factor = (double) shorter / Math.min(image.height(), image.width());
            return image.resize((int) Math.max(shorter, Math.round(image.height() * factor)), (int) Math.max(shorter,
                    Math.round(image.width() * factor)));
        };
    }

    /** Cuts out the centre; a smaller image gets a black border. */
    public static Transform centerCrop(int height, int width) {
        requireSize(height, width);
        return (image, random) -> image.crop(Math.floorDiv(image.height() - height, 2), Math.floorDiv(image.width()
                - width, 2), height, width);
    }

    /**
     * Adds a black border and cuts out a part at a random position. If the image with its border is smaller than the
     * part, the part contains it at a random position.
     *
     * @param padding width of the border
     */
    public static Transform randomCrop(int height, int width, int padding) {
        requireSize(height, width);
        require(padding >= 0, "the padding must be 0 or more, got " + padding);
        return (image, random) -> image.crop(position(random, image.height(), height, padding), position(random,
                image.width(), width, padding), height, width);
    }

    private static int position(RandomGenerator random, int size, int part, int padding) {
        long room = (long) size + 2L * padding - part;
        long drawn = random.nextLong(Math.abs(room) + 1);
        return (int) ((room < 0 ? -drawn : drawn) - padding);
    }

    /**
     * Cuts out a random part and resizes it. The part has a random share of the image's area and a ratio of width to
     * height between 3/4 and 4/3.
     *
     * @param smallest share of the area, for example 0.08
     * @param largest share of the area, at most 1
     */
    public static Transform randomResizedCrop(int height, int width, double smallest, double largest) {
        requireSize(height, width);
        require(0 < smallest && smallest <= largest && largest <= 1, "0 < smallest <= largest <= 1 must hold, got "
                + smallest + " and " + largest);
        return (image, random) -> {
            for (int i = 0; i < TRIES; i++) {
                double area = (smallest + (largest - smallest) * random.nextDouble()) * image.height() * image.width();
                double ratio = Math.exp(LOG_RATIO * (2 * random.nextDouble() - 1));
                int w = (int) Math.round(Math.sqrt(area * ratio));
                int h = (int) Math.round(Math.sqrt(area / ratio));
                if (w > 0 && h > 0 && w <= image.width() && h <= image.height()) {
                    return image.crop(random.nextInt(image.height() - h + 1), random.nextInt(image.width() - w + 1), h,
                            w).resize(height, width);
                }
            }
            int side = Math.min(image.height(), image.width());
            return image.crop((image.height() - side) / 2, (image.width() - side) / 2, side, side).resize(height,
                    width);
        };
    }

    /** Mirrors left to right with probability 1/2. */
    public static Transform randomFlip() {
        return ((Transform) (image, random) -> image.flip()).withProbability(0.5);
    }

    /** Mirrors top to bottom with probability 1/2. */
    public static Transform randomVerticalFlip() {
        return ((Transform) (image, random) -> image.flipVertically()).withProbability(0.5);
    }

    /** Turns about the centre by a random angle of at most {@code degrees} in both directions. */
    public static Transform randomRotation(double degrees) {
        require(Double.isFinite(degrees), "the angle must be finite, got " + degrees);
        return (image, random) -> image.rotate(degrees * (2 * random.nextDouble() - 1));
    }

    /**
     * Changes brightness, contrast and saturation, in this order, each by a random factor in [1 - x, 1 + x]: towards
     * black, towards the mean brightness of the image, and towards grey. Pixels stay between 0 and 1. The hue stays as
     * it is.
     */
    public static Transform colorJitter(double brightness, double contrast, double saturation) {
        require(brightness >= 0 && contrast >= 0 && saturation >= 0 && brightness + contrast + saturation
                < Double.POSITIVE_INFINITY, "amounts must be 0 or more and finite, got " + brightness + ", " + contrast
                + " and " + saturation);
        return (image, random) -> {
            float bright = factor(random, brightness);
            float contrasting = factor(random, contrast);
            float saturated = factor(random, saturation);
            float[] pixels = image.pixels();
            for (int i = 0; i < pixels.length; i++) {
                pixels[i] = Math.clamp(bright * pixels[i], 0f, 1f);
            }
            double sum = 0;
            int plane = image.height() * image.width();
            for (int i = 0; i < plane; i++) {
                sum += grey(image, i);
            }
            float mean = (float) (sum / plane);
            for (int i = 0; i < pixels.length; i++) {
                pixels[i] = Math.clamp(mean + contrasting * (pixels[i] - mean), 0f, 1f);
            }
            for (int i = 0; i < plane; i++) {
                float grey = grey(image, i);
                for (int c = 0; c < image.channels(); c++) {
                    int at = c * plane + i;
                    pixels[at] = Math.clamp(grey + saturated * (pixels[at] - grey), 0f, 1f);
                }
            }
            return image;
        };
    }

    private static float factor(RandomGenerator random, double amount) {
        return (float) Math.max(0, 1 + amount * (2 * random.nextDouble() - 1));
    }

    /** Returns the brightness of a pixel, or its value in an image that has not three channels. */
    static float grey(Image image, int i) {
        int plane = image.height() * image.width();
        float[] pixels = image.pixels();
        return image.channels() != LUMA.length ? pixels[i]
                : LUMA[0] * pixels[i] + LUMA[1] * pixels[plane + i] + LUMA[2] * pixels[2 * plane + i];
    }

    /**
     * Sets a square around a random pixel to 0: black, or the mean after {@link #normalize}. (DeVries and Taylor, 2017)
     *
     * @param side of the square, in pixels; it may extend beyond the image
     */
    public static Transform cutOut(int side) {
        requireSize(side, side);
        return (image, random) -> image.clear(random.nextInt(image.height()) - side / 2, random.nextInt(image.width())
                - side / 2, side, side);
    }

    /**
     * Converts to {@code (x - mean) / std}.
     *
     * @param mean of each channel, or of all
     * @param std standard deviation of each channel, or of all, above 0
     */
    public static Transform normalize(float[] mean, float[] std) {
        float[] means = mean.clone();
        float[] deviations = std.clone();
        require(means.length == deviations.length && means.length > 0, "there must be as many means as deviations, got "
                + means.length + " and " + deviations.length);
        for (int i = 0; i < means.length; i++) {
            require(Float.isFinite(means[i]) && deviations[i] > 0, "deviations must be above 0 and means finite, got "
                    + Arrays.toString(deviations) + " and " + Arrays.toString(means));
        }
        return (image, random) -> {
            require(means.length == 1 || means.length == image.channels(), "an image of " + image.channels()
                    + " channels needs as many means, got " + means.length);
            float[] pixels = image.pixels();
            int plane = image.height() * image.width();
            for (int i = 0; i < pixels.length; i++) {
                int channel = means.length == 1 ? 0 : i / plane;
                pixels[i] = (pixels[i] - means[channel]) / deviations[channel];
            }
            return image;
        };
    }

    private static void requireSize(int height, int width) {
        require(height > 0 && width > 0, "height and width must be above 0, got " + height + " and " + width);
    }

    private static void require(boolean holds, String relation) {
        if (!holds) {
            throw TensorException.argument("transform", relation, "correct the arguments of the transform");
        }
    }
}
