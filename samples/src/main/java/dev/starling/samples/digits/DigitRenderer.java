package dev.starling.samples.digits;

import dev.starling.nn.data.LabelledImages;
import java.util.Arrays;
import java.util.SplittableRandom;

/**
 * Draws digits that look handwritten, so that training needs no file. An image is a function of only the seed and its
 * index. The variant of the digit, a smooth distortion of its strokes, slant, rotation, size and position, the pen's
 * width and darkness, specks and noise are all drawn from one random stream that starts anew for each index. Image
 * {@code i} shows the digit {@code i % 10}.
 *
 * <p>A stroke is a Catmull-Rom spline through its points, divided into short segments. The ink of a pixel depends on
 * how far it lies inside the pen's width around the nearest segment. Confined to one thread; create one renderer per
 * thread.
 */
public final class DigitRenderer {
    /** Rows and columns of an image. */
    public static final int SIDE = 28;
    /** Pixels of an image. */
    public static final int PIXELS = SIDE * SIDE;
    /** Number of digits. */
    public static final int CLASSES = 10;

    /** Mean of the pixels of many images, scaled to [0, 1]. */
    public static final float MEAN = 0.1035f;
    /** Standard deviation of the pixels of many images, scaled to [0, 1]. */
    public static final float STD = 0.2375f;

    private static final int SEGMENTS_PER_SPAN = 5;
    private static final float FAR = 100;

    private final long origin;
    private final Handwriting hand = new Handwriting();
    /** Distance of each pixel's centre to the edge of the nearest stroke, negative inside the stroke. */
    private final float[] distance = new float[PIXELS];

    /**
     * Creates a renderer.
     *
     * @param seed the same seed and index produce the same image
     */
    public DigitRenderer(long seed) {
        this.origin = new SplittableRandom(seed).nextLong();
    }

    /**
     * Returns the digit that an image shows.
     *
     * @param index the image's index, 0 or above
     */
    public static int label(int index) {
        return index % CLASSES;
    }

    /**
     * Draws consecutive images.
     *
     * @param first index of the first image
     * @param count number of images
     */
    public LabelledImages images(int first, int count) {
        byte[] pixels = new byte[Math.multiplyExact(count, PIXELS)];
        byte[] labels = new byte[count];
        for (int i = 0; i < count; i++) {
            draw(first + i, pixels, i * PIXELS);
            labels[i] = (byte) label(first + i);
        }
        return new LabelledImages(1, SIDE, SIDE, CLASSES, pixels, labels);
    }

    /**
     * Draws one image.
     *
     * @param index the image's index, 0 or above
     * @param target receives {@code [28, 28]} unsigned bytes, from 0 for background to 255 for ink, from {@code offset}
     *     on
     * @param offset index of the first byte written
     */
    public void draw(int index, byte[] target, int offset) {
        SplittableRandom random = new SplittableRandom(origin + index * 0xbf58476d1ce4e5b9L);
        Arrays.fill(distance, FAR);
        float[][][] variants = DigitShapes.SHAPES[label(index)];
        hand.vary(random);
        for (float[] stroke : hand.place(variants[random.nextInt(variants.length)])) {
            write(stroke);
        }
        for (int specks = random.nextInt(3); specks > 0; specks--) {
            speck(random);
        }
        ink(random, target, offset);
    }

    private void write(float[] at) {
        int last = at.length / 2 - 1;
        float x = at[0];
        float y = at[1];
        for (int i = 0; i < last; i++) {
            int before = 2 * Math.max(i - 1, 0);
            int after = 2 * Math.min(i + 2, last);
            for (int s = 1; s <= SEGMENTS_PER_SPAN; s++) {
                float t = (float) s / SEGMENTS_PER_SPAN;
                float nextX = spline(at[before], at[2 * i], at[2 * i + 2], at[after], t);
                float nextY = spline(at[before + 1], at[2 * i + 1], at[2 * i + 3], at[after + 1], t);
                segment(x, y, nextX, nextY, hand.penRadius());
                x = nextX;
                y = nextY;
            }
        }
    }

    /**
     * Returns a point between {@code b} (t = 0) and {@code c} (t = 1) on the uniform Catmull-Rom spline through all
     * four.
     */
    private static float spline(float a, float b, float c, float d, float t) {
        return b + 0.5f * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
    }

    private void speck(SplittableRandom random) {
        float x = uniform(random, 1, SIDE - 1);
        float y = uniform(random, 1, SIDE - 1);
        float dx = uniform(random, -2, 2);
        float dy = uniform(random, -2, 2);
        segment(x, y, x + dx, y + dy, uniform(random, 0.1f, 0.5f));
    }

    /** Updates the distances of the pixels near a segment with round ends. */
    private void segment(float x0, float y0, float x1, float y1, float radius) {
        float reach = radius + 1;
        int left = Math.clamp((int) Math.floor(Math.min(x0, x1) - reach), 0, SIDE);
        int right = Math.clamp((int) Math.ceil(Math.max(x0, x1) + reach), 0, SIDE);
        int top = Math.clamp((int) Math.floor(Math.min(y0, y1) - reach), 0, SIDE);
        int bottom = Math.clamp((int) Math.ceil(Math.max(y0, y1) + reach), 0, SIDE);
        float dx = x1 - x0;
        float dy = y1 - y0;
        float scale = 1 / Math.max(dx * dx + dy * dy, 1e-6f);
        for (int y = top; y < bottom; y++) {
            float py = y + 0.5f - y0;
            for (int x = left; x < right; x++) {
                float px = x + 0.5f - x0;
                float t = Math.clamp((px * dx + py * dy) * scale, 0f, 1f);
                float ex = px - t * dx;
                float ey = py - t * dy;
                float away = (float) Math.sqrt(ex * ex + ey * ey) - radius;
                distance[y * SIDE + x] = Math.min(distance[y * SIDE + x], away);
            }
        }
    }

    /** Converts distances to ink with an edge of one pixel, and adds noise that is stronger where there is ink. */
    private void ink(SplittableRandom random, byte[] target, int offset) {
        float dark = uniform(random, 150, 255);
        float noise = uniform(random, 0, 24);
        for (int i = 0; i < PIXELS; i++) {
            float covered = Math.clamp(0.5f - distance[i], 0f, 1f);
            long bits = random.nextLong();
            // The sum of four uniform 16-bit numbers, centred, approximates a normal distribution of deviation 1.
            float grain = ((bits & 0xffff) + (bits >>> 16 & 0xffff) + (bits >>> 32 & 0xffff) + (bits >>> 48)
                - 2 * 65535) * (1.732f / 65536);
            target[offset + i] = (byte) Math.clamp(dark * covered + noise * (0.5f + covered) * grain, 0f, 255f);
        }
    }

    static float uniform(SplittableRandom random, float low, float high) {
        return low + (high - low) * (random.nextInt() >>> 8) * 0x1p-24f;
    }
}
