package dev.starling.transport.spi;

import dev.starling.transport.TransportConfig;

/** Makes wires of one kind; found through {@link java.util.ServiceLoader}. */
public interface WireProvider {
    /** Returns the kind's name, such as {@code aeron}. */
    String name();

    /** Tells whether wires of this kind can be made here; cheap, starts nothing that lasts. */
    Availability availability();

    /**
     * Makes a wire.
     *
     * @throws dev.starling.transport.TransportException if it cannot be made, for example because a port is in use or a
     *     directory is full, naming it and the remedy
     */
    Wire open(TransportConfig config);

    /** Whether wires of a kind can be made. */
    sealed interface Availability {
        /** They can. */
        record Ready(String description) implements Availability { }

        /** They cannot. */
        record Missing(String reason, String remedy) implements Availability { }
    }
}
