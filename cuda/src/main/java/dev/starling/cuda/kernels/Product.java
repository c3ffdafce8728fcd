package dev.starling.cuda.kernels;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.util.Arrays;

/**
 * A product of matrices: {@code y [batch.., m, n] = a [batch.., m, k] · b [batch.., k, n]}, where {@code y} is dense
 * and the operands have the given strides. Strides count elements. There are as few batch dimensions as the strides
 * allow: they are merged with each other, and with the rows of {@code a} where all products share {@code b}.
 *
 * @param m rows of the result
 * @param n columns of the result
 * @param k summands of each element
 * @param aRow distance of rows of {@code a}
 * @param aColumn distance of columns of {@code a}
 * @param bRow distance of rows of {@code b}
 * @param bColumn distance of columns of {@code b}
 * @param batch sizes of the batch dimensions
 * @param aBatch distance of matrices of {@code a} for each batch dimension, 0 where {@code a} is broadcast
 * @param bBatch distance of matrices of {@code b} for each batch dimension
 */
public record Product(long m, long n, long k, long aRow, long aColumn, long bRow, long bColumn, long[] batch,
        long[] aBatch, long[] bBatch) {
    /** Returns the product {@code a · b}; the leading dimensions broadcast to those of {@code y}. */
    public static Product of(Tensor a, Tensor b, Shape y) {
        int lead = y.rank() - 2;
        long[] as = new long[lead];
        long[] bs = new long[lead];
        for (int i = 0; i < lead; i++) {
            as[i] = Layout.stride(a, i - lead - 2);
            bs[i] = Layout.stride(b, i - lead - 2);
        }
        int i = a.rank() - 2;
        int j = b.rank() - 2;
        return new Product(y.dim(-2), y.dim(-1), a.size(-1), a.stride(i), a.stride(i + 1), b.stride(j),
                b.stride(j + 1), y.slice(0, lead).dims(), as, bs).merged();
    }

    /** Returns the product {@code x [.., k] · weightᵀ [k, n]}. */
    public static Product ofLayer(Tensor x, Tensor weight) {
        int lead = x.rank() - 1;
        return new Product(1, weight.size(0), weight.size(1), x.stride(lead), x.stride(lead),
                weight.stride(1), weight.stride(0), x.shape().slice(0, lead).dims(),
                Arrays.copyOf(x.sharedStrides(), lead), new long[lead]).merged();
    }

    private Product merged() {
        int rank = 0;
        long[] sizes = new long[batch.length];
        long[] as = new long[batch.length];
        long[] bs = new long[batch.length];
        for (int d = 0; d < batch.length; d++) {
            if (batch[d] == 1) {
                continue;
            }
            boolean merges = rank > 0 && as[rank - 1] == aBatch[d] * batch[d] && bs[rank - 1] == bBatch[d] * batch[d];
            rank = merges ? rank : rank + 1;
            sizes[rank - 1] = merges ? sizes[rank - 1] * batch[d] : batch[d];
            as[rank - 1] = aBatch[d];
            bs[rank - 1] = bBatch[d];
        }
        long rows = m;
        long row = aRow;
        while (rank > 0 && bs[rank - 1] == 0 && (rows == 1 || as[rank - 1] == rows * row)) {
            rank--;
            row = rows == 1 ? as[rank] : row;
            rows *= sizes[rank];
        }
        return new Product(rows, n, k, row, aColumn, bRow, bColumn, Arrays.copyOf(sizes, rank),
                Arrays.copyOf(as, rank), Arrays.copyOf(bs, rank));
    }

    /** Returns the number of matrix products. */
    public long batches() {
        long count = 1;
        for (long size : batch) {
            count *= size;
        }
        return count;
    }
}
