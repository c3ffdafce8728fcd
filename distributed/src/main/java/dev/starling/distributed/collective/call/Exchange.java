package dev.starling.distributed.collective.call;

/** An exchange of bytes between all ranks. */
public final class Exchange extends Task {
    private final byte[] own;
    private final String what;
    private byte[][] blobs = {};

    /**
     * Creates an exchange.
     *
     * @param what is exchanged, for error messages
     */
    public Exchange(Runner runner, byte[] own, String what) {
        super(runner);
        this.own = own;
        this.what = what;
    }

    /** Returns the bytes of this rank. */
    public byte[] own() {
        return own;
    }

    /** Returns the bytes of each rank, once the exchange is done. */
    public byte[][] blobs() {
        return blobs;
    }

    public void receive(byte[][] ofAll) {
        blobs = ofAll;
    }

    /** Forgets the bytes of all ranks. */
    public void release() {
        blobs = new byte[0][];
    }

    @Override
    public String toString() {
        return what;
    }
}
