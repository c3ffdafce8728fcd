package dev.starling.transport;

import java.util.List;
import java.util.Map;
import org.agrona.collections.Long2ObjectHashMap;

/** Forgets endpoints of a transport that have ended. */
record Endings(Map<String, Endpoint> hellos, Long2ObjectHashMap<Endpoint> bySession, List<Endpoint> endpoints)
        implements EndpointListener {
    @Override
    public void onEnded(Endpoint endpoint) {
        Authentication.Hello hello = endpoint.handshake.hello();
        if (hello != null) {
            hellos.remove(hello.identity(), endpoint);
        }
    }

    @Override
    public void onClosed(Endpoint endpoint) {
        bySession.remove(endpoint.session());
        endpoints.remove(endpoint);
    }
}
