package dev.starling.distributed.collective.call;

import dev.starling.transport.Endpoint;
import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** The messages of one epoch's collectives. Receivers drop those of other epochs. */
public final class EpochMessages {
    /** Blobs that all ranks exchange. */
    public static final int EXCHANGE = 1;
    /** Ends the epoch's collectives with an exception. */
    public static final int ABORT = 2;
    /** Collectives over the network. */
    public static final int NETWORK = 3;
    /** Transfers between two ranks. */
    public static final int POINT_TO_POINT = 4;
    /** Blobs of several ranks, in an exchange in which they pass them on. */
    public static final int GATHERED = 5;

    /** Byte order of all fields. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private static final int CHANNEL_BYTES = 4;
    /** Offsets from the end of the channel number, with which every message begins. */
    private static final int KIND = 0;
    private static final int EPOCH = 4;
    private static final int SEQUENCE = 12;
    /** Offset of the bytes after the header, from the end of the channel number. */
    public static final int BODY = 20;

    /** Length in bytes of the header, the channel number included. */
    public static final int HEADER = CHANNEL_BYTES + BODY;

    private final Fabric fabric;
    private final int channel;

    /** Creates the messages of an epoch, which start with the number of {@code channel}. */
    public EpochMessages(Fabric fabric, int channel) {
        this.fabric = fabric;
        this.channel = channel;
    }

    /** Returns the group in this epoch. */
    public Fabric fabric() {
        return fabric;
    }

    /** Sends the first bytes of a message to a rank; returns whether the link had room for it. */
    public boolean send(int rank, DirectBuffer message, int length) {
        Endpoint endpoint = fabric.endpoint(rank);
        return endpoint != null && endpoint.send(message, 0, length) == Endpoint.OK;
    }

    /** Writes the header of a message of the given kind. */
    public void header(MutableDirectBuffer message, int kind) {
        header(message, kind, 0);
    }

    private void header(MutableDirectBuffer message, int kind, long sequence) {
        message.putInt(0, channel, ORDER);
        message.putInt(CHANNEL_BYTES + KIND, kind, ORDER);
        message.putLong(CHANNEL_BYTES + EPOCH, fabric.epoch(), ORDER);
        message.putLong(CHANNEL_BYTES + SEQUENCE, sequence, ORDER);
    }

    /** Returns a new message. */
    public UnsafeBuffer of(int kind, long sequence, byte[] body) {
        UnsafeBuffer message = new UnsafeBuffer(new byte[HEADER + body.length]);
        header(message, kind, sequence);
        message.putBytes(HEADER, body);
        return message;
    }

    /** Returns the kind of a message; {@code at} is the offset of the byte after its channel number. */
    public static int kind(DirectBuffer message, int at) {
        return message.getInt(at + KIND, ORDER);
    }

    public static long epoch(DirectBuffer message, int at) {
        return message.getLong(at + EPOCH, ORDER);
    }

    public static long sequence(DirectBuffer message, int at) {
        return message.getLong(at + SEQUENCE, ORDER);
    }

    /** Returns the bytes after the header; {@code length} is that of the message without its channel number. */
    public static byte[] body(DirectBuffer message, int at, int length) {
        byte[] body = new byte[length - BODY];
        message.getBytes(at + BODY, body);
        return body;
    }
}
