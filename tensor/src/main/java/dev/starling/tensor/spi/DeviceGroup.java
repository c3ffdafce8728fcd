package dev.starling.tensor.spi;

import dev.starling.tensor.Tensor;
import java.time.Duration;

/**
 * A device's place in a group that computes sums, beside what else the device does. For one thread, but for
 * {@link #abort}. Methods throw a {@link dev.starling.tensor.TensorException} if the library or the device reports an
 * error; the group is then to be aborted.
 */
public interface DeviceGroup extends AutoCloseable {
    /** Returns whether all that was begun here, joining too, has ended. */
    boolean isDone();

    /**
     * Begins to set a tensor without gaps to its sum over all ranks, who must ask for the same in the same order. It
     * waits for what was queued on the device before; what is queued later runs beside it, and leaves the tensor alone
     * until {@link #await}. All ranks get the same bits.
     *
     * @param atMost how long the library may take to queue it, which the caller waits for: links between devices are
     *     made the first time
     */
    void allReduce(Tensor x, Duration atMost);

    /** Lets what is queued on the device from now on wait for the sums that were begun. The host does not wait. */
    void await();

    /** Ends what is under way, as it is; the group can only be closed any more. From any thread. */
    void abort();

    /**
     * Leaves; all that was begun has ended, or was aborted. What is queued on the device from now on may use the
     * memory of the sums again.
     */
    @Override
    void close();
}
