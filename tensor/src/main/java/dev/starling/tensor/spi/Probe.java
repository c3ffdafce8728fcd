package dev.starling.tensor.spi;

/** The result of a backend's search for devices on this machine. */
public sealed interface Probe {
    /**
     * The backend can be used.
     *
     * @param devices number of devices
     * @param description one line about the devices
     */
    record Ready(int devices, String description) implements Probe { }

    /**
     * The backend cannot be used.
     *
     * @param reason why not
     * @param remedy how to make it usable
     */
    record Missing(String reason, String remedy) implements Probe { }
}
