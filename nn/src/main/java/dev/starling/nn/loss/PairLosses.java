package dev.starling.nn.loss;

import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;

/** Losses of the distances between rows that a model has computed for several inputs of one example. */
final class PairLosses {
    private static final double EPSILON = 1e-6;
    private static final double EMBEDDING_EPSILON = 1e-12;
    /** The square of the smallest length by which a cosine is divided. */
    private static final double SMALLEST_SQUARE = 1e-16;

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
        Tensor cosine = product(each[0], each[1], each[0].square().sum(-1).add(EMBEDDING_EPSILON),
                each[1].square().sum(-1).add(EMBEDDING_EPSILON));
        Elementwise.requireSame("cosineEmbedding", cosine, target);
        // 0 times the target keeps NaN, which the comparison hides.
        return target.gt(0).where(cosine.neg().add(1), cosine.sub(margin).relu())
                .add(target.to(cosine.dtype()).mul(0));
    }

    /** Returns the cosines of the angles between rows, {@code [.., D]} to {@code [..]}; 0 for rows of zeros. */
    static Tensor cosine(Tensor a, Tensor b) {
        return product(a, b, a.square().sum(-1).clamp(SMALLEST_SQUARE, Double.POSITIVE_INFINITY),
                b.square().sum(-1).clamp(SMALLEST_SQUARE, Double.POSITIVE_INFINITY));
    }

    /** Returns the products of rows, divided by the roots of both squares. */
    private static Tensor product(Tensor a, Tensor b, Tensor squareOfA, Tensor squareOfB) {
        // One after the other: the product of both squares may exceed what f32 can represent.
        return a.mul(b).sum(-1).mul(squareOfA.rsqrt()).mul(squareOfB.rsqrt());
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
