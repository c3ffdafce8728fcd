package dev.starling.transport;

/** Is told of peers that come and go. Runs inside {@link Transport#doWork}. */
public interface ConnectionHandler {
    /** Tells that a peer connected from its side and proved who it is; see {@link Endpoint#greeting}. */
    default void accepted(Endpoint endpoint) { }

    /** Tells that a connected endpoint is lost or was closed by the peer; see {@link Endpoint#reason}. */
    default void lost(Endpoint endpoint) { }
}
