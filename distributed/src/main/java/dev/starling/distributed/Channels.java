package dev.starling.distributed;

import java.nio.ByteOrder;

/** What the first four bytes of each message between members say: who takes it. */
public final class Channels {
    /** Length in bytes of the channel's number, which every message begins with. */
    public static final int HEADER = 4;

    /** Members and the coordinator. */
    public static final int CONTROL = 0;

    /** Collectives. */
    public static final int COLLECTIVES = 1;

    /** Parameter servers. */
    public static final int PARAMETERS = 2;

    /** Gossip. */
    public static final int GOSSIP = 3;

    /** Order of bytes of the number. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private Channels() { }
}
