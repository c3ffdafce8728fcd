package dev.starling.tensor.spi;

/** What a backend finds on this machine. */
public sealed interface Probe {
    /**
     * The backend can be used.
     *
     * @param devices how many devices it offers
     * @param description one line on what they are
     */
    record Ready(int devices, String description) implements Probe { }

    /**
     * The backend cannot be used.
     *
     * @param reason why not
     * @param remedy what to do about it
     */
    record Missing(String reason, String remedy) implements Probe { }
}
