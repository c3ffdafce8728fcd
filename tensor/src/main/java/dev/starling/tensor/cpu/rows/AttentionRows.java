package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.cpu.rows.RowElements.get;
import static dev.starling.tensor.cpu.rows.RowElements.set;
import static dev.starling.tensor.cpu.rows.RowElements.setInteger;

/**
 * Row operations of attention on blocks of scores and other f32 matrices at raw addresses, whose rows are contiguous
 * and {@code step} elements apart. Lists have an f32 for each row. Operations on lists are plain Java by default.
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

    /**
     * Lists the numbers of keys that the rows of some heads see: all, or, if attention is causal, those up to the row's
     * own query.
     *
     * @param seen address of {@code heads·queries} numbers, i32
     * @param numbers address of 0, 1, … up to the greater of {@code keys} and the last query's number plus 1, i32
     * @param first number of each head's first query
     */
    default void seen(long seen, long numbers, int heads, int queries, int first, int keys, boolean causal) {
        for (int i = 0; i < heads * queries; i++) {
            setInteger(seen, i, causal ? Math.min(keys, first + i % queries + 1) : keys);
        }
    }

    /** Replaces maxima by shifts, their negatives, or 0 for -∞. */
    default void shifts(long maxima, int rows) {
        for (int i = 0; i < rows; i++) {
            float max = get(maxima, i);
            set(maxima, i, max == Float.NEGATIVE_INFINITY ? 0 : -max);
        }
    }

    /**
     * Replaces the sums of shifted exponentials by the factors that make them weights, and writes the logarithms of the
     * sums before the shift. A sum of 0 has the factor 0.
     *
     * @param logs address of the first head's first logarithm; those of the next are {@code logStep} elements further
     */
    default void factors(long sums, long shifts, int heads, int queries, long logs, long logStep) {
        for (int i = 0; i < heads * queries; i++) {
            float sum = get(sums, i);
            set(sums, i, sum == 0 ? 0 : 1 / sum);
            set(logs + 4 * logStep * (i / queries), i % queries,
                    sum == 0 ? Float.NEGATIVE_INFINITY : StrictMath.log(sum) - get(shifts, i));
        }
    }

    /** Lists the negatives of such logarithms as shifts. Rows whose logarithm is -∞ see no key. */
    default void shifts(long logs, long logStep, int heads, int queries, long shifts, long seen) {
        for (int i = 0; i < heads * queries; i++) {
            float log = get(logs + 4 * logStep * (i / queries), i % queries);
            set(shifts, i, -log);
            if (log == Float.NEGATIVE_INFINITY) {
                setInteger(seen, i, 0);
            }
        }
    }
}
