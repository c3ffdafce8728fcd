package dev.starling.distributed.group;

import java.nio.ByteOrder;

/**
 * The channels of a group. The first four bytes of each message between members are the number of its channel. A
 * strategy names its own channel, relative to {@link #FIRST_OF_STRATEGIES}.
 */
public final class Channels {
    /** Length in bytes of the channel number, with which every message begins. */
    public static final int HEADER = 4;

    /** Membership: messages between members and the coordinator. */
    public static final int CONTROL = 0;

    /** Collectives. */
    public static final int COLLECTIVES = 1;

    /** Collectives of sub-groups. */
    public static final int SUB_GROUPS = 2;

    /** Pieces of messages of {@link #CONTROL} that are too long for one message of the transport. */
    public static final int CONTROL_PIECES = 3;

    /** The first number that strategies use. */
    public static final int FIRST_OF_STRATEGIES = 4;

    /** Number of channels. */
    public static final int COUNT = 17;

    /** Byte order of the channel number. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private Channels() { }
}
