package dev.starling.transport;

import org.agrona.DirectBuffer;

/** Is notified of what happens at an endpoint. */
interface EndpointListener {
    /** A process proved that it has the secret; for endpoints that the peer began. */
    void onAccepted(Endpoint endpoint);

    void onMessage(Endpoint endpoint, DirectBuffer buffer, int offset, int length);

    /** The data of a put with an immediate value have arrived. */
    void onPut(Endpoint endpoint, long immediate);

    /** The connection was established and is lost. */
    void onLost(Endpoint endpoint);

    /** The connection is over, for whatever reason: the peer may begin another one. */
    void onEnded(Endpoint endpoint);

    /** The endpoint is closed: no frame reaches it any more. */
    void onClosed(Endpoint endpoint);
}
