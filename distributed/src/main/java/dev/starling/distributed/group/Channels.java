package dev.starling.distributed.group;

import dev.starling.tensor.TensorException;
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

    /** The first number that strategies of this library use. */
    public static final int FIRST_OF_STRATEGIES = 4;

    /** The first number that strategies of a user's own use. */
    public static final int FIRST_OF_USERS = 8;

    /** Number of channels. */
    public static final int COUNT = 16;

    /** Byte order of the channel number. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private Channels() { }

    /**
     * Returns the number of a channel of a user's own.
     *
     * @param i from 0 to 7
     */
    public static int ofUser(int i) {
        if (i < 0 || i >= COUNT - FIRST_OF_USERS) {
            throw TensorException.argument("channels", "0 <= i < " + (COUNT - FIRST_OF_USERS) + " must hold, got " + i,
                    "send several kinds of messages on one channel");
        }
        return FIRST_OF_USERS + i;
    }
}
