package dev.starling.distributed.bucket;

import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/**
 * The memory of buckets and the means to sum them over all ranks. All ranks call the same methods in the same order.
 */
interface Reducer extends AutoCloseable {
    /** Returns the device of the memory. */
    Device device();

    /** Allocates buckets, filled with zeros. */
    void prepare(BucketPlan plan);

    /** Returns an entry of the plan as a tensor. */
    Tensor slot(int entry, Shape shape);

    /** Sets an entry to zero. */
    void clear(int entry);

    /** Returns the plan's last entry, which is in the host's memory for any device. */
    MemorySegment vector();

    /** Begins to sum a bucket. */
    void start(int bucket);

    /** Waits until all buckets, and the vector, hold their sums. */
    void await(Duration atMost);

    /** Releases the memory. A pending reduction ends, and with it this rank's participation in the epoch. */
    @Override
    void close();
}
