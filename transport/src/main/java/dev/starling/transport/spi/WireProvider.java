package dev.starling.transport.spi;

import org.agrona.concurrent.UnsafeBuffer;

/** Creates wires of one kind; found through {@link java.util.ServiceLoader}. */
public interface WireProvider {
    /** Returns the kind's name, such as {@code aeron}. */
    String name();

    /** Returns whether wires of this kind can be created here. Cheap; starts nothing that lasts. */
    Availability availability();

    /**
     * Creates a wire.
     *
     * @throws dev.starling.transport.TransportException if the wire cannot be created, for example because a port is in
     *     use or a directory is full; the message names the cause and the remedy
     */
    Wire open(WireConfig config);

    /** Whether wires of a kind can be created. */
    sealed interface Availability {
        /** They can be created. */
        record Ready(String description) implements Availability { }

        /** They cannot be created. */
        record Missing(String reason, String remedy) implements Availability { }

        /** Returns {@link Ready} if this JVM has the flag that every wire needs: Agrona's buffers do. */
        static Availability readyWithFlag(String description) {
            return Object.class.getModule().isExported("jdk.internal.misc", UnsafeBuffer.class.getModule())
                    ? new Ready(description)
                    : new Missing("Agrona has no access to jdk.internal.misc", "start java with "
                    + "--add-exports java.base/jdk.internal.misc=ALL-UNNAMED, or =org.agrona on the module path");
        }
    }
}
