package dev.starling.tensor.cpu.rows;

/**
 * Row operations of attention on blocks of scores and other f32 matrices at raw addresses, whose rows are contiguous
 * and {@code step} elements apart. Lists have an f32 for each row.
 */
public interface AttentionRows {
    /** Replaces all scores by {@code scale·score + mask}. */
    void mask(ScoreBlock scores, float scale, long mask, long maskStep);

    /** Lists the largest seen score of each row that is not NaN, or -∞. */
    void max(ScoreBlock scores, float scale, long maxima);

    /** Replaces seen scores by {@code exp(score + shift)} and the others by 0, and lists the sums of the rows. */
    void exponentials(ScoreBlock scores, float scale, long shifts, long sums);

    /** Multiplies each row by a factor of a list. */
    void scale(long x, long step, int rows, int columns, long factors);

    /** Lists Σ a·b of each row. */
    void dot(long a, long aStep, long b, long bStep, int rows, int columns, long dots);

    /**
     * Replaces seen scores by weights {@code exp(score + shift)}, their slopes, which lie as the scores do, by
     * {@code weight·(slope - dot)·slopeScale}, and those of other keys by 0.
     */
    void gradients(ScoreBlock scores, long slopes, float scale, long shifts, long dots, float slopeScale);

    /** Sets a row to 0. */
    void clear(long x, int n);
}
