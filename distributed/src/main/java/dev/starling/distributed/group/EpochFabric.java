package dev.starling.distributed.group;

import dev.starling.distributed.View;
import dev.starling.distributed.collective.call.Fabric;
import dev.starling.transport.Endpoint;
import dev.starling.transport.Transport;
import org.agrona.collections.Long2ObjectHashMap;

/**
 * A group or sub-group in one epoch, as the collectives see it.
 *
 * @param epoch distinguishes the messages of these collectives from those of others between the same processes
 */
record EpochFabric(long epoch, View view, long ownId, Long2ObjectHashMap<Endpoint> endpoints, Transport transport)
        implements Fabric {
    @Override
    public int rank() {
        return view.byId(ownId).rank();
    }

    @Override
    public int world() {
        return view.world();
    }

    @Override
    public Endpoint endpoint(int rank) {
        return endpoints.get(view.members().get(rank).id());
    }

    @Override
    public String host(int rank) {
        return view.members().get(rank).host();
    }
}
