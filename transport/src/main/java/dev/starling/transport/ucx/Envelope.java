package dev.starling.transport.ucx;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The prefix of each message: its link and its number on this link. UCX may deliver long messages later than short ones
 * that were sent after them, for example where it has several devices; the number restores the order. The envelope of a
 * write also has its destination: number and token of a registration, an offset in bytes, and whether it is the last
 * piece of a put. A message may follow, which is delivered when the write is complete.
 */
final class Envelope {
    /** Length in bytes. */
    static final int LENGTH = 16;
    /** Length in bytes of the envelope of a write. */
    static final int WRITE_LENGTH = 48;

    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int SEQUENCE = 8;
    private static final int REGISTRATION = 16;
    private static final int TOKEN = 24;
    private static final int OFFSET = 32;
    private static final int LAST = 40;

    private Envelope() { }

    static void write(MutableDirectBuffer buffer, int at, long link, long sequence) {
        buffer.putLong(at, link, ORDER);
        buffer.putLong(at + SEQUENCE, sequence, ORDER);
    }

    static void writeTarget(MutableDirectBuffer buffer, int at, long registration, long token, long offset,
            boolean last) {
        buffer.putLong(at + REGISTRATION, registration, ORDER);
        buffer.putLong(at + TOKEN, token, ORDER);
        buffer.putLong(at + OFFSET, offset, ORDER);
        buffer.putLong(at + LAST, last ? 1 : 0, ORDER);
    }

    static long link(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER);
    }

    static long sequence(DirectBuffer buffer, int at) {
        return buffer.getLong(at + SEQUENCE, ORDER);
    }

    static long registration(DirectBuffer buffer, int at) {
        return buffer.getLong(at + REGISTRATION, ORDER);
    }

    static long token(DirectBuffer buffer, int at) {
        return buffer.getLong(at + TOKEN, ORDER);
    }

    static long offset(DirectBuffer buffer, int at) {
        return buffer.getLong(at + OFFSET, ORDER);
    }

    static boolean isLast(DirectBuffer buffer, int at) {
        return buffer.getLong(at + LAST, ORDER) != 0;
    }
}
