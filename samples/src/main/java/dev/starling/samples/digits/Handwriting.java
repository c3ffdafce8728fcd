package dev.starling.samples.digits;

import java.util.SplittableRandom;

/**
 * The handwriting of one image's digit: the position of each point of a shape on the paper, and the width of the pen.
 * The distortion is a sum of a few random plane waves, so that points near each other move by nearly the same amount
 * and strokes that meet still meet.
 */
final class Handwriting {
    private static final int WAVES = 3;
    /** Pixels between the ink and the edge of the paper. */
    private static final float MARGIN = 1;

    /** For each wave: wave vector and phase, then the amplitude of the displacement. */
    private final float[] waves = new float[WAVES * 5];
    private float xx;
    private float xy;
    private float yx;
    private float yy;
    private float centerX;
    private float centerY;
    private float penRadius;
    /** Bounds of the points placed so far. */
    private float left;
    private float right;
    private float top;
    private float bottom;

    /** Draws new random parameters. */
    void vary(SplittableRandom random) {
        for (int w = 0; w < waves.length; w += 5) {
            waves[w] = uniform(random, -7, 7);
            waves[w + 1] = uniform(random, -7, 7);
            waves[w + 2] = uniform(random, 0, 6.2831855f);
            waves[w + 3] = uniform(random, -0.07f, 0.07f);
            waves[w + 4] = uniform(random, -0.07f, 0.07f);
        }
        float height = uniform(random, 15, 21);
        float width = height * uniform(random, 0.5f, 1f);
        float angle = uniform(random, -0.22f, 0.22f);
        float slant = uniform(random, -0.35f, 0.2f);
        float cos = (float) Math.cos(angle);
        float sin = (float) Math.sin(angle);
        xx = width * cos;
        xy = height * (cos * slant - sin);
        yx = width * sin;
        yy = height * (sin * slant + cos);
        centerX = DigitRenderer.SIDE / 2f + uniform(random, -2, 2);
        centerY = DigitRenderer.SIDE / 2f + uniform(random, -2, 2);
        penRadius = uniform(random, 0.6f, 1.7f);
    }

    /** Returns half of the pen's width in pixels. */
    float penRadius() {
        return penRadius;
    }

    /**
     * Places the points of a shape on the paper, and shifts all of them by one vector if they would leave it.
     *
     * @param shape strokes, each {@code x, y} of its points in units of the shape's box
     * @return the same strokes in pixels
     */
    float[][] place(float[][] shape) {
        float[][] placed = new float[shape.length][];
        left = top = Float.POSITIVE_INFINITY;
        right = bottom = Float.NEGATIVE_INFINITY;
        for (int s = 0; s < shape.length; s++) {
            placed[s] = place(shape[s]);
        }
        float dx = shift(left, right);
        float dy = shift(top, bottom);
        for (float[] stroke : placed) {
            for (int i = 0; i < stroke.length; i += 2) {
                stroke[i] += dx;
                stroke[i + 1] += dy;
            }
        }
        return placed;
    }

    private float[] place(float[] stroke) {
        float[] placed = new float[stroke.length];
        for (int i = 0; i < stroke.length; i += 2) {
            float x = stroke[i] - 0.5f;
            float y = stroke[i + 1] - 0.5f;
            float dx = 0;
            float dy = 0;
            for (int w = 0; w < waves.length; w += 5) {
                float wave = (float) Math.sin(waves[w] * x + waves[w + 1] * y + waves[w + 2]);
                dx += waves[w + 3] * wave;
                dy += waves[w + 4] * wave;
            }
            placed[i] = centerX + xx * (x + dx) + xy * (y + dy);
            placed[i + 1] = centerY + yx * (x + dx) + yy * (y + dy);
            left = Math.min(left, placed[i]);
            right = Math.max(right, placed[i]);
            top = Math.min(top, placed[i + 1]);
            bottom = Math.max(bottom, placed[i + 1]);
        }
        return placed;
    }

    /**
     * Returns the smallest shift that brings an interval between the margins. An interval that is too large is centred.
     */
    private float shift(float low, float high) {
        float min = MARGIN + penRadius - low;
        float max = DigitRenderer.SIDE - MARGIN - penRadius - high;
        return min <= max ? Math.clamp(0, min, max) : (min + max) / 2;
    }

    private static float uniform(SplittableRandom random, float low, float high) {
        return DigitRenderer.uniform(random, low, high);
    }
}
