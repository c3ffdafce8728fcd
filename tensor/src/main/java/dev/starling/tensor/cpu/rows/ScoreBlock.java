package dev.starling.tensor.cpu.rows;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.ValueLayout;

/**
 * A block of attention's scores, f32 at raw addresses. Each stands for {@code scale·score}, where {@code scale} is not
 * 0. A row sees its first keys; the scores of the others may be anything. What is between the rows may be overwritten.
 * An object is set for one block after the other.
 */
public final class ScoreBlock {
    private long address;
    private int pitch;
    private int rows;
    private int keys;
    private long seen;
    private long numbers;

    /**
     * Sets the scores.
     *
     * @param first address of the first score
     * @param distance distance between rows in elements, a multiple of 64
     * @param queries number of rows, one for each query
     * @param scores number of scores in a row
     */
    public ScoreBlock scores(long first, int distance, int queries, int scores) {
        address = first;
        pitch = distance;
        rows = queries;
        keys = scores;
        return this;
    }

    /**
     * Sets the lists of numbers of keys, i32.
     *
     * @param ofRows address of the number of keys that each row sees
     * @param all address of 0, 1, …
     */
    public ScoreBlock keys(long ofRows, long all) {
        seen = ofRows;
        numbers = all;
        return this;
    }

    /** Sets this to some of the rows of {@code whole}. */
    public ScoreBlock part(ScoreBlock whole, int first, int count) {
        return scores(whole.row(first), whole.pitch, count, whole.keys)
                .keys(whole.seen + 4L * first, whole.numbers);
    }

    /** Returns the address of the first score. */
    public long address() {
        return address;
    }

    /** Returns the distance between rows in elements. */
    public int pitch() {
        return pitch;
    }

    /** Returns the number of rows. */
    public int rows() {
        return rows;
    }

    /** Returns the number of scores in a row. */
    public int keys() {
        return keys;
    }

    /** Returns the address of the list of the numbers of keys that rows see. */
    long seen() {
        return seen;
    }

    /** Returns the address of the list 0, 1, …. */
    long numbers() {
        return numbers;
    }

    /** Returns the address of a row. */
    long row(int r) {
        return address + 4L * r * pitch;
    }

    /** Returns the number of keys that a row sees. */
    int seen(int r) {
        return HostMemory.ALL.get(ValueLayout.JAVA_INT, seen + 4L * r);
    }
}
