package dev.starling.tensor.spi;

import dev.starling.tensor.Device;

/** Finds a backend through {@link java.util.ServiceLoader}. */
public interface BackendProvider {
    /** Returns the device type that it serves, for example {@code cpu}. */
    String type();

    /** Looks for devices; never throws, never starts one. */
    Probe probe();

    /** Opens the backend of a device that the probe found. */
    Backend open(Device device);
}
