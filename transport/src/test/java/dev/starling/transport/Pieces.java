package dev.starling.transport;

/** Tells tests what the transport keeps to itself. */
public final class Pieces {
    private Pieces() { }

    /** Returns how many bytes of a put one frame carries. */
    public static int length(Transport transport) {
        return transport.pieceLength();
    }
}
