package dev.starling.tensor.spi;

/**
 * Memory of the host that a device copies to and from by itself, beside what else it does, where it can do that. For
 * one thread, but for {@link Part#isDone}; methods throw a {@link dev.starling.tensor.TensorException} if the device
 * reports an error.
 *
 * <pre>{@code
 * part.download(device);                     // begins when what the device was asked for so far is done
 * while (!part.isDone()) { ... }             // whoever has time
 * ...                                        // the host works on the bytes
 * part.upload(device);                       // what the device is asked for from now on finds them there
 * }</pre>
 */
public interface PinnedMemory extends AutoCloseable {
    /** A part of the memory, for one copy at a time. Until it is done, the host leaves the part alone. */
    interface Part {
        /** Begins to copy all of it from the device, after what that was asked for so far. */
        void download(long deviceAddress);

        /**
         * Begins to copy all of it to the device, after what that was asked for so far; what it is asked for from now
         * on runs after the copy. Does not make the host wait.
         */
        void upload(long deviceAddress);

        /** Tells whether the copies that were begun have ended. From any thread. */
        boolean isDone();

        /** Forgets it. */
        void close();
    }

    /** Returns a part, of {@code bytes} from {@code offset} on, which its user closes before the memory. */
    Part part(long offset, long bytes);

    /** Ends the device's use of the memory, which stays its owner's. All copies have ended. */
    @Override
    void close();
}
