package dev.starling.distributed.state;

import dev.starling.distributed.DistributedException;
import dev.starling.errors.Durations;
import dev.starling.tensor.Device;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.PinnedMemory;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** Memory of the host in parts, which a device copies to and from asynchronously. */
public final class DeviceCopies implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");

    private final Device device;
    private final MemorySegment memory;
    private final Duration timeout;
    private final PinnedMemory pinned;
    private final List<PinnedMemory.Part> parts = new ArrayList<>();

    /**
     * Registers memory with the device.
     *
     * @param timeout how long copies may take before their memory is reused or released
     */
    public DeviceCopies(Device device, MemorySegment memory, Duration timeout) {
        this.device = device;
        this.memory = memory;
        this.timeout = timeout;
        pinned = device.backend().pin(memory.address(), memory.byteSize());
    }

    /** Returns a part of the memory. */
    public PinnedMemory.Part part(long offset, long bytes) {
        PinnedMemory.Part part = pinned.part(offset, bytes);
        parts.add(part);
        return part;
    }

    private boolean await() {
        return PinnedMemory.awaitCopies(parts.toArray(PinnedMemory.Part[]::new), timeout);
    }

    /** Waits for all copies, and removes all parts. */
    public void clear() {
        if (!await()) {
            throw new DistributedException("waited " + Durations.text(timeout) + " for copies between the host and "
                    + device);
        }
        closeParts();
    }

    private void closeParts() {
        parts.forEach(PinnedMemory.Part::close);
        parts.clear();
    }

    /** Waits for all copies; returns whether this object and the memory may be closed, and logs an error if not. */
    public boolean awaitLast() {
        try {
            if (!await()) {
                LOG.log(Level.ERROR, "{0} still copies to or from memory of the host after {1}: {2} bytes are not"
                        + " released", device, Durations.text(timeout), memory.byteSize());
                return false;
            }
        } catch (TensorException e) {
            // A failed device does not copy any more.
            LOG.log(Level.WARNING, "{0}", e.getMessage());
        }
        return true;
    }

    @Override
    public void close() {
        closeParts();
        pinned.close();
    }
}
