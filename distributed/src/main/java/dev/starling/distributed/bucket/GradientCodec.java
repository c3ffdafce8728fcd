package dev.starling.distributed.bucket;

/**
 * Decides how ranks sum the gradients of a bucket: compressed, sparse, or in another way than by a plain all-reduce.
 * Immutable and the same on all ranks, which may share one object; what is kept from one step to the next belongs to
 * the {@link BucketReduction}, or is in a {@linkplain GradientBucket#residual residual}.
 *
 * <p>Gradients are weighted by rows: their sum over all ranks is the gradient of the batch. Only f32 gradients in
 * memory of the host pass through a codec. Gradients of other types are summed exactly; gradients on a GPU are copied
 * to the host as they arrive.
 *
 * <p>A gradient that no rank has in a step is 0 on all ranks. If its sum is not 0, because the codec has held back a
 * part of it in earlier steps, the optimiser takes its step along that sum. Where a sum is infinite or NaN, the step is
 * refused or, with the loss scale of f16, skipped: what ranks have sent in that step is lost, and what they hold back
 * remains.
 */
@FunctionalInterface
public interface GradientCodec {
    /**
     * Creates the reduction of a bucket. Called for all buckets in order, at the beginning of each membership epoch and
     * whenever the buckets are laid out anew, as after the first step; previous reductions are closed then. Collective:
     * it may register memory and prepare collectives.
     */
    BucketReduction reduction(GradientBucket bucket);
}
