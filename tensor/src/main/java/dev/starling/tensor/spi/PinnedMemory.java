package dev.starling.tensor.spi;

import java.time.Duration;
import java.util.concurrent.locks.LockSupport;

/**
 * Host memory that a device copies to and from asynchronously, if it supports that. For use by one thread, except
 * {@link Part#isDone}. Methods throw a {@link dev.starling.tensor.TensorException} if the device reports an error.
 *
 * <pre>{@code
 * part.download(device);                     // begins after the work that was queued before
 * while (!part.isDone()) { ... }             // the host may do other work
 * ...                                        // the host uses the bytes
 * part.upload(device);                       // work that is queued later reads the new bytes
 * }</pre>
 */
public interface PinnedMemory extends AutoCloseable {
    /** Interval at which {@link #awaitCopies} checks whether copies have ended. */
    long POLL_NS = 20_000;

    /** A part of the memory, for one copy at a time. The host must not touch it during a copy. */
    interface Part {
        /** Begins to copy the whole part from the device, after the work that was queued before. */
        void download(long deviceAddress);

        /**
         * Begins to copy the whole part to the device, after the work that was queued before; work that is queued later
         * runs after the copy. The host does not wait.
         */
        void upload(long deviceAddress);

        /** Returns whether the copies that were begun have ended. May be called from any thread. */
        boolean isDone();

        /** Releases the part. */
        void close();
    }

    /** Returns the part of {@code bytes} at {@code offset}, which the caller closes before the memory. */
    Part part(long offset, long bytes);

    /** Waits until the copies of all parts have ended; returns false if they have not after a timeout. */
    static boolean awaitCopies(Part[] parts, Duration timeout) {
        long begin = System.nanoTime();
        for (Part part : parts) {
            while (!part.isDone()) {
                if (System.nanoTime() - begin > timeout.toNanos()) {
                    return false;
                }
                LockSupport.parkNanos(POLL_NS);
            }
        }
        return true;
    }

    /** Unregisters the memory, which remains its owner's. All copies must have ended. */
    @Override
    void close();
}
