package dev.starling.transport;

/** Is notified when an endpoint ends; the application's {@link Handlers} are notified of everything else. */
interface EndpointListener {
    /** The connection is over, for whatever reason: the peer may begin another one. */
    void onEnded(Endpoint endpoint);

    /** The endpoint is closed: no frame reaches it any more. */
    void onClosed(Endpoint endpoint);
}
