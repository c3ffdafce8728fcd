package dev.starling.distributed;

import java.nio.ByteOrder;

/** The channels of a group. The first four bytes of each message between members are the number of its channel. */
public final class Channels {
    /** Length in bytes of the channel number, with which every message begins. */
    public static final int HEADER = 4;

    /** Membership: messages between members and the coordinator. */
    public static final int CONTROL = 0;

    /** Collectives. */
    public static final int COLLECTIVES = 1;

    /** Parameter servers. */
    public static final int PARAMETERS = 2;

    /** Gossip. */
    public static final int GOSSIP = 3;

    /** Byte order of the channel number. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private Channels() { }
}
