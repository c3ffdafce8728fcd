package dev.starling.tensor.spi;

import dev.starling.tensor.Tensor;

/**
 * A device's place in a group that computes sums. For one thread, but for {@link #abort}. Methods throw a
 * {@link dev.starling.tensor.TensorException} if the library reports an error; the group is then to be aborted.
 */
public interface DeviceGroup extends AutoCloseable {
    /** Returns whether all that was begun here, joining too, has ended. */
    boolean isDone();

    /**
     * Sets a tensor without gaps to its sum over all ranks, who must ask for the same in the same order. It waits for
     * what was queued on the device before, and what is queued later for it. All ranks get the same bits.
     */
    void allReduce(Tensor x);

    /** Ends what is under way, as it is; the group cannot be used any more. From any thread. */
    void abort();

    /** Leaves; all that was begun has ended. */
    @Override
    void close();
}
