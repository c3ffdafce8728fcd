package dev.starling.transport.ucx;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The prefix of each message: its link and its number on this link. UCX may deliver long messages later than short ones
 * that were sent after them, for example where it has several devices; the number restores the order.
 */
final class Envelope {
    /** Length in bytes. */
    static final int LENGTH = 16;

    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int SEQUENCE = 8;

    private Envelope() { }

    static void write(MutableDirectBuffer buffer, int at, long link, long sequence) {
        buffer.putLong(at, link, ORDER);
        buffer.putLong(at + SEQUENCE, sequence, ORDER);
    }

    static long link(DirectBuffer buffer) {
        return buffer.getLong(0, ORDER);
    }

    static long sequence(DirectBuffer buffer) {
        return buffer.getLong(SEQUENCE, ORDER);
    }
}
