package dev.starling.tensor.cpu.rows;

/**
 * Row operations of attention on {@code n > 0} scores, contiguous f32 at raw addresses. Each score stands for
 * {@code scale·score + mask}; a mask at address 0 means none.
 */
public interface AttentionRows {
    /** Returns the largest score that is not NaN, or -∞. */
    float max(long scores, int n, float scale, long mask);

    /** Replaces scores by {@code exp(score - shift)} and returns their sum. */
    float exponentials(long scores, int n, float scale, long mask, float shift);

    /** Multiplies by a factor. */
    void scale(long x, int n, float by);

    /** Returns Σ a·b. */
    float dot(long a, long b, int n);

    /** Replaces slopes by {@code weight·(slope - shift)·scale}. */
    void scoreGradient(long weights, long slopes, int n, float shift, float scale);
}
