package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;

/**
 * How attention is divided. Neighbouring heads form groups whose products run together, as one batch; queries form
 * blocks whose scores stay in the cache. A causal block ends with the keys that its queries see. The division depends
 * on shapes alone, not on the number of threads, so that results do not depend on it either.
 */
final class AttentionGrid {
    /** Scores of a group's block, if that leaves at least {@link #MIN_QUERIES} queries. */
    private static final int SCORES = 1 << 17;
    private static final int MAX_QUERIES = 256;
    /** Long enough for fast products, and short enough that little is computed of what the causal mask hides. */
    private static final int CAUSAL_QUERIES = 64;
    private static final int MIN_QUERIES = 16;
    /** More heads make products no faster. */
    private static final int MAX_HEADS = 4;
    /** As many groups are left for threads. */
    private static final int MIN_GROUPS = 8;
    /** Causal blocks end at one of about this many positions; for each of them oneDNN compiles products. */
    private static final int ENDS = 32;
    /** Rows of scores begin at multiples of this, so that loops over them may write whole vectors of any processor. */
    private static final int ALIGNMENT = 64;

    private final Shape lead;
    private final int queries;
    private final int keys;
    private final boolean causal;
    private final int block;
    /** The last leading dimension whose size is not 1, or -1: heads are neighbours along it. */
    private final int axis;
    private final int row;
    private final int group;

    /** Divides queries of heads {@code lead}. */
    AttentionGrid(Shape lead, int queries, int keys, boolean causal) {
        this.lead = lead;
        this.queries = queries;
        this.keys = keys;
        this.causal = causal;
        int most = Math.min(causal ? CAUSAL_QUERIES : MAX_QUERIES, queries);
        block = Math.max(Math.min(most, SCORES / keys / MIN_QUERIES * MIN_QUERIES), Math.min(queries, MIN_QUERIES));
        int last = lead.rank() - 1;
        while (last >= 0 && lead.dim(last) == 1) {
            last--;
        }
        axis = last;
        row = axis < 0 ? 1 : Math.toIntExact(lead.dim(axis));
        int wanted = Math.clamp(Math.min(SCORES / ((long) block * keys), lead.count() / MIN_GROUPS), 1,
                MAX_HEADS);
        group = Math.ceilDiv(row, Math.ceilDiv(row, wanted));
    }

    /** Returns the number of groups. */
    long groups() {
        return lead.count() / row * Math.ceilDiv(row, group);
    }

    /** Returns the number of heads of the largest group. */
    int heads() {
        return group;
    }

    /** Returns the first head of a group. */
    long head(long index) {
        int parts = Math.ceilDiv(row, group);
        return index / parts * row + index % parts * group;
    }

    /** Returns the number of heads of a group. */
    int heads(long index) {
        int parts = Math.ceilDiv(row, group);
        return (int) Math.min(group, row - index % parts * group);
    }

    /** Returns the number of blocks of a head. */
    int blocks() {
        return Math.ceilDiv(queries, block);
    }

    /** Returns the largest number of queries of a block. */
    int queries() {
        return block;
    }

    /** Returns the first query of a block. */
    int first(int b) {
        return b * block;
    }

    /** Returns the number of queries of a block. */
    int queries(int b) {
        return Math.min(block, queries - b * block);
    }

    /** Returns the number of keys with which a block computes scores. */
    int keys(int b) {
        int step = Math.max(block, Math.ceilDiv(Math.ceilDiv(keys, ENDS), MIN_QUERIES) * MIN_QUERIES);
        return causal ? (int) Math.min(keys, Math.ceilDiv((b + 1L) * block, step) * step) : keys;
    }

    /** Returns the distance in elements between rows of scores with this many keys. */
    static int pitch(int blockKeys) {
        return Math.ceilDiv(blockKeys, ALIGNMENT) * ALIGNMENT;
    }

    /** Returns the number of scores of a head's block, with the gaps between their rows. */
    long scores() {
        return (long) block * pitch(keys);
    }

    /** Returns the distance between rows in elements; for a single row any value would do. */
    static long row(Tensor x) {
        return x.size(-2) == 1 ? x.size(-1) : x.stride(x.rank() - 2);
    }

    /** Returns the distance between neighbouring heads in elements, 0 if they share one. */
    long step(Tensor x) {
        int d = x.rank() - 2 - lead.rank() + axis;
        return axis < 0 || d < 0 || x.size(d) == 1 ? 0 : x.stride(d);
    }

    /** Returns the address of a row of a head, in a tensor whose leading dimensions broadcast. */
    long at(Tensor x, long head, int index) {
        long offset = x.size(-2) == 1 ? 0 : index * x.stride(x.rank() - 2);
        long rest = head;
        for (int i = lead.rank() - 1, d = x.rank() - 3; d >= 0; i--, d--) {
            offset += x.size(d) == 1 ? 0 : rest % lead.dim(i) * x.stride(d);
            rest /= lead.dim(i);
        }
        return x.address() + 4 * offset;
    }
}
