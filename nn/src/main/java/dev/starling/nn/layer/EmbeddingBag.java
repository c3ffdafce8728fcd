package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/**
 * Looks up rows of a table and joins those of each sample: integers {@code [N, L]} to {@code [N, width]}, with
 * {@code weight [rows, width]}.
 */
public final class EmbeddingBag implements Layer {
    /** How the rows of a sample are joined. */
    public enum Join {
        /** Their sum. */
        SUM,
        /** Their mean. */
        MEAN,
        /** The largest element of each column. */
        MAX
    }

    private final Embedding table;
    private final Join join;

    private EmbeddingBag(Embedding table, Join join) {
        this.table = table;
        this.join = join;
    }

    /** Returns a layer whose table is drawn from the standard normal distribution. */
    public static EmbeddingBag of(long rows, long width, Join join, Generator generator) {
        return new EmbeddingBag(Embedding.of(rows, width, generator), join);
    }

    /** Returns a layer with the same table that ignores an index, with which shorter samples are filled. */
    public EmbeddingBag padding(long index) {
        return new EmbeddingBag(table.padding(index), join);
    }

    @Override
    public Tensor forward(Tensor index) {
        if (index.rank() != 2) {
            throw new TensorException(TensorException.Problem.SHAPE, "embeddingBag", List.of(index.spec()),
                    "the indices must be [N, L]", "fill shorter samples with an index that padding(..) ignores");
        }
        Tensor rows = table.apply(index);
        Tensor left = table.left(index);
        // Samples without indices are 0, as in PyTorch.
        if (join == Join.SUM || index.size(1) == 0) {
            return rows.sum(1);
        }
        if (left == null) {
            return join == Join.MEAN ? rows.mean(1) : rows.max(1);
        }
        // The sum of many rows may be infinite in f16, although their mean is not.
        DType wide = rows.dtype().bytes() == 2 ? DType.F32 : rows.dtype();
        Tensor kept = left.to(wide).sub(1).neg();
        if (join == Join.MEAN) {
            Tensor count = kept.sum(1).clamp(1, Double.POSITIVE_INFINITY);
            return rows.to(wide).sum(1).div(count).to(rows.dtype());
        }
        Tensor largest = rows.maskedFill(left, Double.NEGATIVE_INFINITY).max(1);
        return largest.maskedFill(kept.sum(1).eq(0), 0);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", table.weight());
    }

    @Override
    public String settings() {
        return table.settings() + ", " + join;
    }

    @Override
    public String toString() {
        return tree();
    }
}
