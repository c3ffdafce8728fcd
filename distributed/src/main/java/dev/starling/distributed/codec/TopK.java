package dev.starling.distributed.codec;

import dev.starling.distributed.bucket.BucketReduction;
import dev.starling.distributed.bucket.GradientBucket;
import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.tensor.TensorException;

/**
 * Sends only the largest elements of each bucket, as pairs of position and value, and adds what is left to the next
 * step's gradients (error feedback), so that each element is sent sooner or later: Aji and Heafield, Sparse
 * Communication for Distributed Gradient Descent (EMNLP 2017); Lin et al., Deep Gradient Compression (ICLR 2018). A
 * bucket of n elements takes 8 × {@code fraction} × n bytes of each rank, which all ranks gather, instead of an
 * all-reduce of 4 × n bytes: it pays off below about 1/(2 × ranks).
 *
 * <p>Elements that are infinite or NaN count as the largest and are not kept, so all ranks refuse the step. Each rank
 * keeps as many f32 elements on the heap as there are gradients.
 *
 * @param fraction of the elements of a bucket that a rank sends, rounded up; above 0, at most 1
 */
public record TopK(double fraction) implements GradientCodec {
    /** Checks the fraction. */
    public TopK {
        if (!(fraction > 0 && fraction <= 1)) {
            throw TensorException.argument("top-k", "0 < fraction <= 1 must hold, got " + fraction,
                    "set the fraction of elements to send, such as 0.01");
        }
    }

    @Override
    public BucketReduction reduction(GradientBucket bucket) {
        return new SparseSum(bucket, fraction);
    }
}
