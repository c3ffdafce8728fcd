package dev.starling.distributed.ring;

import dev.starling.distributed.bucket.GradientCodec;
import dev.starling.tensor.DType;
import org.jspecify.annotations.Nullable;

/**
 * Configuration of {@link RingAllReduce}, the same on all ranks.
 *
 * @param wireType type in which f32 gradients are sent
 * @param codec that sums f32 gradients; {@code null} for an all-reduce
 * @param bucketBytes maximum size in bytes of a bucket of more than one gradient
 * @param proportional whether batches are divided by the measured speed of ranks
 * @param elastic whether training continues after a change of members
 * @param ownData whether each rank trains on rows of its own
 * @param onDevices whether devices may sum gradients among themselves
 */
record RingConfig(DType wireType, @Nullable GradientCodec codec, long bucketBytes, boolean proportional,
        boolean elastic, boolean ownData, boolean onDevices) { }
