package dev.starling.tensor.spi;

import dev.starling.tensor.Tensor;
import java.time.Duration;

/**
 * A device's membership in a group that sums tensors while the device does other work. For use by one thread, except
 * {@link #abort}. Methods throw a {@link dev.starling.tensor.TensorException} if the library or the device reports an
 * error; the caller must then abort the group.
 */
public interface DeviceGroup extends AutoCloseable {
    /** Returns whether all work that was begun here, including joining, has ended. */
    boolean isDone();

    /**
     * Begins to set a tensor without gaps to its sum over all ranks, which must make the same calls in the same order.
     * The sum waits for work queued on the device before it; work queued later runs concurrently and must not touch the
     * tensor until {@link #await}. All ranks get the same bits.
     *
     * @param timeout how long the caller waits for the library to queue the sum: it connects the devices at the first
     *     call
     */
    void allReduce(Tensor x, Duration timeout);

    /**
     * Makes work that is queued on the device from now on wait for the sums that were begun. The host does not wait.
     */
    void await();

    /** Cancels all pending work; the group can only be closed afterwards. May be called from any thread. */
    void abort();

    /**
     * Leaves the group; all work has ended or was aborted. Work that is queued on the device from now on may use the
     * memory of the sums.
     */
    @Override
    void close();
}
