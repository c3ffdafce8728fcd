package dev.starling.distributed.collective;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;

/** What collectives see of a group in one epoch. */
public interface Fabric {
    /** Returns this process's rank. */
    int rank();

    /** Returns the number of ranks. */
    int world();

    /** Returns the number of the epoch. */
    long epoch();

    /** Returns the connection to a rank. */
    Endpoint endpoint(int rank);

    /** Returns a text that is the same for ranks that may map each other's memory. */
    String host(int rank);

    /** Returns the transport. */
    Transport transport();
}
