package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Philox;
import java.util.Arrays;

/**
 * Converts the bytes of an image to the floats that a network reads: a random crop out of a zero-padded image, a random
 * horizontal flip, and normalisation of each channel to {@code (byte / 255 - mean) / std}. Padding pixels are black,
 * like a byte of 0 before normalisation.
 *
 * <p>Random decisions depend only on {@code (seed, epoch, image)}, so that any number of threads, in any order,
 * produces the same batch. Immutable and safe for use by several threads.
 */
public final class Augment {
    /** Separates these random numbers from others that are drawn with the same seed. */
    private static final long STREAM = 0x4175676d656e7421L;

    private final int channels;
    private final int height;
    private final int width;
    private final int padding;
    private final boolean flip;
    /** The normalised value of each byte in each channel, {@code [C, 256]}. */
    private final float[] normalized;

    private Augment(int channels, int height, int width, int padding, boolean flip, float[] normalized) {
        this.channels = channels;
        this.height = height;
        this.width = width;
        this.padding = padding;
        this.flip = flip;
        this.normalized = normalized;
    }

    /**
     * Returns an augmentation that only normalises, as a test set needs it.
     *
     * @param channels planes of an image
     * @param height its rows
     * @param width its columns
     * @param mean mean of each channel over the training set, with bytes scaled to {@code [0, 1]}, {@code [C]}
     * @param std standard deviation of each channel, above 0, {@code [C]}
     */
    public static Augment normalize(int channels, int height, int width, float[] mean, float[] std) {
        if (channels < 1 || height < 1 || width < 1 || mean.length != channels || std.length != channels) {
            throw TensorException.argument("augment",
                    "expected positive channels, height and width and a mean and std for"
                    + " each channel, found " + channels + ", " + height + ", " + width + ", " + mean.length
                    + " mean(s), " + std.length + " std(s)", "pass one mean and one std for each channel");
        }
        float[] table = new float[channels * 256];
        for (int c = 0; c < channels; c++) {
            if (!(std[c] > 0) || !Float.isFinite(mean[c])) {
                throw TensorException.argument("augment", "std must be above 0 and means finite, got "
                        + Arrays.toString(std) + " and " + Arrays.toString(mean), "leave out constant channels");
            }
            for (int i = 0; i < 256; i++) {
                table[c * 256 + i] = (i / 255f - mean[c]) / std[c];
            }
        }
        return new Augment(channels, height, width, 0, false, table);
    }

    /**
     * Adds a random crop: the image gets {@code newPadding} black pixels on each side, and an image of the original
     * size is cut out at a uniformly drawn position.
     */
    public Augment randomCrop(int newPadding) {
        if (newPadding < 0) {
            throw TensorException.argument("augment", "expected padding of 0 or more, found " + newPadding,
                    "use a padding of 0 or more");
        }
        return new Augment(channels, height, width, newPadding, flip, normalized);
    }

    /** Adds a horizontal flip with probability 1/2. */
    public Augment randomFlip() {
        return new Augment(channels, height, width, padding, true, normalized);
    }

    /** Requires images of the size that this augmentation reads: rows of another length would be mixed up. */
    void requireSize(LabelledImages images) {
        if (images.channels() != channels || images.height() != height || images.width() != width) {
            throw TensorException.argument("augment", "images must have " + channels + " channels, " + height
                    + " rows and " + width + " columns, got " + images.channels() + ", " + images.height() + " and "
                    + images.width(), "make an augmentation for images of this size");
        }
    }

    private void requireRoom(String array, int length, int offset) {
        long image = (long) channels * height * width;
        if (offset < 0 || offset > length - image) {
            throw TensorException.argument("augment", "the " + array + " must contain " + image + " elements from "
                    + offset + " on, got " + length + " in total", "pass a larger array or another offset");
        }
    }

    /**
     * Writes one image without allocating memory.
     *
     * @param seed seed of the run
     * @param epoch number of the pass over the data
     * @param image index of the image in its set
     * @param source unsigned bytes, {@code [C, H, W]} from {@code sourceOffset} on
     * @param target receives {@code [C, H, W]} from {@code targetOffset} on
     * @param targetOffset index of the first element written
     * @throws TensorException if an image does not fit into an array from its offset on
     */
    public void write(long seed, int epoch, int image, byte[] source, int sourceOffset, float[] target,
        int targetOffset) {
        requireRoom("source", source.length, sourceOffset);
        requireRoom("target", target.length, targetOffset);
        long counter = (long) epoch << 32 | image;
        int positions = 2 * padding + 1;
        int shiftY = (int) (positions * Philox.uniformAt(seed ^ STREAM, counter, 0)) - padding;
        int shiftX = (int) (positions * Philox.uniformAt(seed ^ STREAM, counter, 1)) - padding;
        boolean mirrored = flip && Philox.bitsAt(seed ^ STREAM, counter, 2) < 0;
        // Columns of the target whose source column x + shiftX lies inside the image; mirroring reverses the target's
        // row.
        int from = Math.clamp(-shiftX, 0, width);
        int to = Math.clamp(width - shiftX, from, width);
        for (int c = 0; c < channels; c++) {
            int table = c * 256;
            float black = normalized[table];
            for (int y = 0; y < height; y++) {
                int row = targetOffset + (c * height + y) * width;
                int sourceY = y + shiftY;
                if (sourceY < 0 || sourceY >= height) {
                    Arrays.fill(target, row, row + width, black);
                    continue;
                }
                int sourceRow = sourceOffset + (c * height + sourceY) * width + shiftX;
                if (from > 0 || to < width) {
                    Arrays.fill(target, row, row + width, black);
                }
                if (mirrored) {
                    for (int x = from; x < to; x++) {
                        target[row + width - 1 - x] = normalized[table + (source[sourceRow + x] & 0xff)];
                    }
                } else {
                    for (int x = from; x < to; x++) {
                        target[row + x] = normalized[table + (source[sourceRow + x] & 0xff)];
                    }
                }
            }
        }
    }
}
