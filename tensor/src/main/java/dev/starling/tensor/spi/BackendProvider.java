package dev.starling.tensor.spi;

import dev.starling.tensor.Device;
import java.util.List;

/** Finds a backend through {@link java.util.ServiceLoader}. */
public interface BackendProvider {
    /** Returns the device type of its backend, for example {@code cpu}. */
    String type();

    /** Looks for devices; never throws and never starts a device. */
    Probe probe();

    /** Returns the number of devices that every machine has, which need no probe before they are opened. */
    default int certain() {
        return 0;
    }

    /**
     * Returns native libraries to report: those that are missing, and others that the backend uses unless the probe
     * describes them; none if there is no device.
     * May take seconds, and loads the libraries. Never throws.
     */
    default List<Library> libraries() {
        return List.of();
    }

    /** Opens the backend of a device that is certain or that the probe found. */
    Backend open(Device device);
}
