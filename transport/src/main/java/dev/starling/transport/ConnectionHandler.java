package dev.starling.transport;

/** Callbacks for peers that connect and disconnect. Run inside {@link Transport#doWork}. */
public interface ConnectionHandler {
    /**
     * Called when a peer has connected from its side and proven that it has the secret; see {@link Endpoint#greeting}.
     */
    default void onAccepted(Endpoint endpoint) { }

    /** Called when a connected endpoint is lost or was closed by the peer; see {@link Endpoint#reason}. */
    default void onLost(Endpoint endpoint) { }
}
