package dev.starling.distributed.collective.call;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;

/** A group or sub-group in one epoch, as the collectives see it. */
public interface Fabric {
    /** Returns this process's rank. */
    int rank();

    /** Returns the number of ranks. */
    int world();

    /** Returns a positive number that distinguishes this epoch of this group from others between the same ranks. */
    long epoch();

    /** Returns the connection to a rank. */
    Endpoint endpoint(int rank);

    /** Returns the identity of a rank's host: ranks with equal texts may map each other's memory. */
    String host(int rank);

    /** Returns the transport. */
    Transport transport();
}
