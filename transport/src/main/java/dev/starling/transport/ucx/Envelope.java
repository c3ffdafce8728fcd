package dev.starling.transport.ucx;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * What precedes each message: which link it came by, and its number on this link. UCX may hand long messages over
 * later than short ones that were sent after them, for example where it has several devices; the number puts them in
 * order again.
 */
final class Envelope {
    /** Bytes. */
    static final int LENGTH = 16;

    private static final int SEQUENCE = 8;

    private Envelope() { }

    static void write(MutableDirectBuffer buffer, int at, long link, long sequence) {
        buffer.putLong(at, link, ByteOrder.LITTLE_ENDIAN);
        buffer.putLong(at + SEQUENCE, sequence, ByteOrder.LITTLE_ENDIAN);
    }

    static long link(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ByteOrder.LITTLE_ENDIAN);
    }

    static long sequence(DirectBuffer buffer, int at) {
        return buffer.getLong(at + SEQUENCE, ByteOrder.LITTLE_ENDIAN);
    }
}
