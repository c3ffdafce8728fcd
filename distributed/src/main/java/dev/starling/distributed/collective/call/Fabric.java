package dev.starling.distributed.collective.call;

import dev.starling.distributed.View;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * A group or sub-group in one epoch, as the collectives see it.
 *
 * @param epoch a positive number that distinguishes these collectives from others between the same ranks
 * @param ownId of this process in the view
 * @param endpoints connections by member id
 */
public record Fabric(long epoch, View view, long ownId, Long2ObjectHashMap<Endpoint> endpoints, Transport transport) {
    /** Returns this process's rank. */
    public int rank() {
        return view.byId(ownId).rank();
    }

    /** Returns the number of ranks. */
    public int world() {
        return view.world();
    }

    /** Returns the connection to a rank. */
    public Endpoint endpoint(int rank) {
        return endpoints.get(view.members().get(rank).id());
    }

    /** Returns the identity of a rank's host: ranks with equal texts may map each other's memory. */
    public String host(int rank) {
        return view.members().get(rank).host();
    }
}
