package dev.starling.distributed.collective.call;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The messages of one epoch's collectives: channel i32, kind i32, epoch i64, sequence i64, rest. Receivers drop those
 * of other epochs.
 */
public final class EpochMessages {
    /** Length in bytes of the header of messages, the channel number included. */
    public static final int HEADER = 24;

    /** Blobs that all ranks exchange. */
    public static final int EXCHANGE = 1;
    /** Ends the epoch's collectives with an exception. */
    public static final int ABORT = 2;
    /** Collectives over the network. */
    public static final int NETWORK = 3;
    /** Transfers between two ranks. */
    public static final int POINT_TO_POINT = 4;

    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private final Fabric fabric;
    private final int channel;

    /** Creates the messages of an epoch, which start with the number of {@code channel}. */
    public EpochMessages(Fabric fabric, int channel) {
        this.fabric = fabric;
        this.channel = channel;
    }

    /** Returns the epoch of a message; {@code offset} is that of the bytes after the channel number. */
    public static long epoch(DirectBuffer message, int offset) {
        return message.getLong(offset + 4, ORDER);
    }

    /** Returns the group in this epoch. */
    public Fabric fabric() {
        return fabric;
    }

    /** Sends a message to a rank; returns the transport's result code. */
    public int send(int rank, DirectBuffer message, int offset, int length) {
        return fabric.endpoint(rank).send(message, offset, length);
    }

    /** Writes the header of a message of the given kind. */
    public void header(UnsafeBuffer message, int kind) {
        write(message, kind, 0);
    }

    private void write(UnsafeBuffer message, int kind, long sequence) {
        message.putInt(0, channel, ORDER);
        message.putInt(4, kind, ORDER);
        message.putLong(8, fabric.epoch(), ORDER);
        message.putLong(16, sequence, ORDER);
    }

    /** Returns a new message. */
    public UnsafeBuffer of(int kind, long sequence, byte[] rest) {
        UnsafeBuffer message = new UnsafeBuffer(new byte[HEADER + rest.length]);
        write(message, kind, sequence);
        message.putBytes(HEADER, rest);
        return message;
    }
}
