package dev.starling.distributed.ring;

import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.MemorySegment;
import java.time.Duration;

/** The memory of buckets, and what adds them up over all ranks. All ranks call the same in the same order. */
interface Reducer extends AutoCloseable {
    /** Returns where the memory is. */
    Device device();

    /** Lays buckets out, all of them zero. */
    void prepare(BucketPlan plan);

    /** Returns an entry of the plan as a tensor. */
    Tensor slot(int entry, Shape shape);

    /** Sets an entry to zero. */
    void clear(int entry);

    /** Returns the plan's last entry, which is on the host whatever the device. */
    MemorySegment vector();

    /** Begins to add up a bucket. */
    void start(int bucket);

    /** Waits until all buckets, and the vector, are what they should be. */
    void await(Duration atMost);

    /** Gives the memory back. What is under way on it ends, for this rank with all that it does in this epoch. */
    @Override
    void close();
}
