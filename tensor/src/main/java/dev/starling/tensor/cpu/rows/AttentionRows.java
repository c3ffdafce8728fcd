package dev.starling.tensor.cpu.rows;

/**
 * Row operations of attention on {@code n} of a row's {@code end} scores, contiguous f32 at raw addresses. Each score
 * stands for {@code scale·score}, where {@code scale} is not 0. The other scores are not seen: whatever they are,
 * their weights and gradients are 0. Rows begin 64 elements or a multiple apart, and what is between them may be
 * overwritten.
 */
public interface AttentionRows {
    /** Replaces scores by {@code scale·score + mask}. */
    void mask(long scores, int n, float scale, long mask);

    /** Returns the largest score that is not NaN, or -∞; {@code n > 0}. */
    float max(long scores, int n, float scale);

    /** Replaces scores by {@code exp(score - shift)}, unseen ones by 0, and returns their sum; {@code n > 0}. */
    float exponentials(long scores, int n, int end, float scale, float shift);

    /** Multiplies a row by a factor. */
    void scale(long x, int n, float by);

    /** Returns Σ a·b. */
    float dot(long a, long b, int n);

    /**
     * Replaces scores by weights {@code exp(score - log)}, slopes by {@code weight·(slope - dot)·slopeScale}, and
     * those of unseen scores by 0.
     */
    void gradients(long scores, long slopes, int n, int end, float scale, float log, float dot, float slopeScale);

    /** Sets a row to 0. */
    void clear(long x, int n);
}
