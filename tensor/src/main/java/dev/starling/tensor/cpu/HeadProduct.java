package dev.starling.tensor.cpu;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.Matmul;

/**
 * Products of the heads of a group, as one batch. Operands are known by numbers: those of attention, which move from
 * block to block, and two matrices of scores. A reusable request of one thread.
 */
final class HeadProduct {
    // Queries, keys, values, the result and its gradient, and the gradients of the first three.
    static final int Q = 0;
    static final int K = 1;
    static final int V = 2;
    static final int Y = 3;
    static final int G = 4;
    static final int DQ = 5;
    static final int DK = 6;
    static final int DV = 7;
    static final int SCORES = 8;
    /** The gradients of scores. */
    static final int SLOPES = 9;

    private final Matmul product = new Matmul(ElementType.F32, ElementType.F32, 1, 1, 1);
    private final long[] addresses = new long[SLOPES + 1];
    /** Distances between rows, in elements. */
    private final long[] rows = new long[SLOPES + 1];
    /** Distances between heads, in elements. */
    private final long[] steps = new long[SLOPES + 1];
    private int left;
    private boolean leftTransposed;
    private int right;
    private boolean rightTransposed;

    /** Takes the strides of the operands {@link #Q}, {@link #K}, ..., in this order. */
    void operands(AttentionGrid grid, Tensor[] tensors) {
        for (int i = 0; i < tensors.length; i++) {
            rows[i] = AttentionGrid.row(tensors[i]);
            steps[i] = grid.step(tensors[i]);
        }
    }

    /** Moves operands to a group that begins with {@code head}, and those with rows of queries to {@code query}. */
    void move(AttentionGrid grid, Tensor[] tensors, long head, int query) {
        for (int i = 0; i < tensors.length; i++) {
            boolean ofKeys = i == K || i == V || i == DK || i == DV;
            addresses[i] = grid.at(tensors[i], head, ofKeys ? 0 : query);
        }
    }

    /** Places scores and their gradients, of {@code queries} rows a head with {@code pitch} elements each. */
    void scores(long scores, long slopes, int queries, int pitch) {
        addresses[SCORES] = scores;
        addresses[SLOPES] = slopes;
        for (int i = SCORES; i <= SLOPES; i++) {
            rows[i] = pitch;
            steps[i] = (long) queries * pitch;
        }
    }

    /** Returns the address of an operand's first row for the head with this number in the group. */
    long address(int operand, int head) {
        return addresses[operand] + 4 * head * steps[operand];
    }

    /** Returns the distance between an operand's rows in elements. */
    long row(int operand) {
        return rows[operand];
    }

    /** Sets the left operand. */
    HeadProduct left(int operand, boolean transposed) {
        left = operand;
        leftTransposed = transposed;
        return this;
    }

    /** Sets the right operand. */
    HeadProduct right(int operand, boolean transposed) {
        right = operand;
        rightTransposed = transposed;
        return this;
    }

    /** Writes the products of {@code heads} heads to a result, or adds them to it. */
    void into(int result, boolean add, int heads, int m, int n, int k) {
        product.sizes(m, n, k)
                .left(addresses[left], leftTransposed ? 1 : rows[left], leftTransposed ? rows[left] : 1)
                .right(addresses[right], rightTransposed ? 1 : rows[right], rightTransposed ? rows[right] : 1)
                .result(addresses[result], rows[result]).accumulate(add)
                .batch(heads, steps[left], steps[right], steps[result]).run();
    }
}
