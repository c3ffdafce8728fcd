package dev.starling.distributed.codec;

import dev.starling.distributed.bucket.BucketReduction;
import dev.starling.distributed.bucket.GradientBucket;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.tensor.TensorException;

/**
 * Sends two thin factors in place of each matrix: Vogels, Karimireddy and Jaggi, PowerSGD: Practical Low-Rank Gradient
 * Compression for Distributed Optimization (NeurIPS 2019). With M, an n × m gradient plus what was left of earlier
 * steps, and Q, the m × r factor of the last step, all ranks sum P = M Q, make its columns orthonormal, sum Q = Mᵀ P,
 * and use P Qᵀ as the sum of M. A rank keeps M - P Qᵀ, with its own Q, for its next step (error feedback). A sum of
 * rank r or less is reproduced to within rounding.
 *
 * <p>A gradient with more than two dimensions is a matrix of its first dimension and all others. Vectors, and matrices
 * whose factors would not be smaller, are summed exactly. Factors are computed by plain loops, so that all ranks get
 * the same bits on different processors. A gradient that is infinite or NaN makes the sum NaN, so that all ranks refuse
 * the step, and ends what was left of earlier steps. Each rank keeps as many f32 elements on the heap as there are
 * gradients.
 *
 * @param rank of the approximation, r; 1 or more
 * @param seed of the first Q, equal on all ranks
 */
public record PowerSgd(int rank, long seed) implements GradientCodec {
    /** Checks the rank. */
    public PowerSgd {
        if (rank < 1) {
            throw TensorException.argument("power sgd", "rank >= 1 must hold, got " + rank,
                    "set the rank of the approximation, such as 4");
        }
    }

    /** Creates a codec with the seed 0. */
    public PowerSgd(int rank) {
        this(rank, 0);
    }

    @Override
    public BucketReduction reduction(GradientBucket bucket) {
        return new LowRankSum(bucket, rank, seed);
    }
}
