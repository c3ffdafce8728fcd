package dev.starling.nn.loss;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/** Losses of the distances between rows that a model has computed for several inputs of one example. */
final class PairLosses {
    private static final double EPSILON = 1e-6;
    private static final double COSINE_EPSILON = 1e-12;

    private PairLosses() {
    }

    /** See {@link Loss#triplet}. */
    static Tensor triplet(Tensor rows, double margin) {
        Tensor[] each = split("triplet", rows, 3);
        return distance(each[0], each[1]).sub(distance(each[0], each[2])).add(margin).relu();
    }

    /** See {@link Loss#contrastive}. */
    static Tensor contrastive(Tensor rows, Tensor target, double margin) {
        Tensor[] each = split("contrastive", rows, 2);
        Tensor distance = distance(each[0], each[1]);
        Elementwise.requireSame("contrastive", distance, target);
        Tensor same = target.to(rows.dtype());
        return same.mul(distance.square()).add(same.neg().add(1).mul(distance.neg().add(margin).relu().square()));
    }

    /** See {@link Loss#cosineEmbedding}. */
    static Tensor cosineEmbedding(Tensor rows, Tensor target, double margin) {
        Tensor[] each = split("cosineEmbedding", rows, 2);
        Tensor cosine = cosine(each[0], each[1]);
        Elementwise.requireSame("cosineEmbedding", cosine, target);
        return target.gt(0).where(cosine.neg().add(1), cosine.sub(margin).relu());
    }

    /** Returns the cosines of the angles between rows, {@code [.., D]} to {@code [..]}. */
    static Tensor cosine(Tensor a, Tensor b) {
        Tensor squares = a.square().sum(-1).add(COSINE_EPSILON).mul(b.square().sum(-1).add(COSINE_EPSILON));
        return a.mul(b).sum(-1).mul(squares.rsqrt());
    }

    /** Returns the distances of rows; the small number keeps the slope finite where they are equal. */
    private static Tensor distance(Tensor a, Tensor b) {
        return a.sub(b).add(EPSILON).square().sum(-1).sqrt();
    }

    private static Tensor[] split(String loss, Tensor rows, int count) {
        if (rows.rank() != 3 || rows.size(1) != count) {
            throw new TensorException(TensorException.Problem.SHAPE, loss, List.of(rows.spec()),
                    "the result must be [N, " + count + ", D]: " + count + " rows for each example",
                    "stack the rows of an example along dimension 1");
        }
        return rows.unstack(1);
    }
}
