package dev.starling.tensor.spi;

import dev.starling.tensor.Device;
import java.util.List;

/** Finds a backend through {@link java.util.ServiceLoader}. */
public interface BackendProvider {
    /** Returns the device type that it serves, for example {@code cpu}. */
    String type();

    /** Looks for devices; never throws, never starts one. */
    Probe probe();

    /**
     * Returns the libraries that it makes use of, those that are missing among them; none where there is no device.
     * Looking for them may take seconds, and loads them. Never throws.
     */
    default List<Library> libraries() {
        return List.of();
    }

    /** Opens the backend of a device that the probe found. */
    Backend open(Device device);
}
