package dev.starling.cuda.kernels;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Attention;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * Attention or its gradient, as far as a library's plan depends on it. Rows of all operands are contiguous.
 *
 * @param type of all operands except the log-sum-exp, which is f32
 * @param batch number of sequences
 * @param heads number of heads of each sequence
 * @param queries number of queries of a head
 * @param keys number of keys of a head
 * @param width length of queries and keys
 * @param depth length of values
 * @param scale factor of the scores
 * @param causal whether query {@code i} attends to keys {@code 0..i} only
 * @param q strides of the queries
 * @param k strides of the keys
 * @param v strides of the values
 * @param y strides of the results
 * @param g strides of the results' gradients, or {@code null} without them; gradients of q, k, v are row-major
 * @param mask strides of the mask that is added to the scores, of the operands' type, or {@code null} without one; a
 *     batch or head stride of 0 means that all sequences or heads share it
 */
public record AttentionCall(DType type, long batch, long heads, long queries, long keys, long width, long depth,
        float scale, boolean causal, Rows q, Rows k, Rows v, Rows y, @Nullable Rows g,
        @Nullable Rows mask) {
    private static final int ALIGNMENT = 16;
    private static final int MAX_RANK = 4;

    /**
     * Strides in elements.
     *
     * @param batch distance of neighbouring sequences
     * @param head distance of neighbouring heads
     * @param row distance of neighbouring rows
     */
    public record Rows(long batch, long head, long row) {
        /** Returns an operand's strides if heads do not overlap and rows begin at 16-byte multiples, else nothing. */
        private static Optional<Rows> of(Tensor x, Tensor q, int rank) {
            long unit = ALIGNMENT / x.dtype().bytes();
            boolean fits = x.rank() == rank && x.stride(rank - 1) == 1 && x.size(-1) % unit == 0
                    && x.address() % ALIGNMENT == 0;
            for (int d = 0; fits && d < rank - 1; d++) {
                boolean repeats = d < rank - 2 && x.size(d) != q.size(d);
                fits = !repeats && x.stride(d) > 0 && (x.size(d) == 1 || x.stride(d) % unit == 0);
            }
            return !fits ? Optional.empty() : Optional.of(new Rows(
                    rank < 4 ? x.size(-2) * x.size(-1) : x.stride(0),
                    rank < 3 ? x.size(-2) * x.size(-1) : x.stride(rank - 3), x.stride(rank - 2)));
        }
    }

    /**
     * Returns the call for operands, or nothing if libraries cannot read them.
     *
     * @param mask may be {@code null}
     * @param g the results' gradients, or {@code null}
     */
    public static Optional<AttentionCall> of(Attention op, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask,
            Tensor y, @Nullable Tensor g) {
        int rank = y.rank();
        if (rank > MAX_RANK || y.count() == 0 || k.count() == 0
                || y.shape().slice(0, rank - 1).count() > Layout.MAX_COUNT) {
            return Optional.empty();
        }
        Rows[] rows = new Rows[4];
        Tensor[] all = {q, k, v, y};
        for (int i = 0; i < all.length; i++) {
            Optional<Rows> fitting = Rows.of(all[i], q, rank);
            if (fitting.isEmpty()) {
                return Optional.empty();
            }
            rows[i] = fitting.get();
        }
        Optional<Rows> gradients = g == null ? Optional.empty() : Rows.of(g, q, rank);
        Optional<Rows> masks = mask == null ? Optional.empty()
                : AdditiveMask.rows(mask, q, q.size(-2), k.size(-2));
        if (g != null && gradients.isEmpty() || mask != null && masks.isEmpty()) {
            return Optional.empty();
        }
        return Optional.of(new AttentionCall(q.dtype(), rank < 4 ? 1 : y.size(0), rank < 3 ? 1 : y.size(-3), q.size(-2),
                k.size(-2), q.size(-1), v.size(-1), (float) op.scale(), op.causal(), rows[0], rows[1], rows[2], rows[3],
                gradients.orElse(null), masks.orElse(null)));
    }
}
