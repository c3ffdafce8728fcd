package dev.starling.transport.tcp;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * What travels over a connection. All numbers are little endian, and every unit ends at a multiple of 8 bytes, so that
 * data that lie aligned at the sender also lie aligned in the receive buffer.
 *
 * <pre>
 * from the link       PREAMBLE  magic i64, wire i64
 *                     MESSAGE   kind i32, length i32, message, padding
 *                     PARTS     the same; the kind also has the length of the message's header
 * from the receiver   REPLY     magic i64, wire i64
 *                     BUSY      u8, before it closes a connection whose peer is unproven: the link may try again
 * </pre>
 */
final class Unit {
    static final int PREAMBLE = 16;
    static final int REPLY = 16;
    static final byte BUSY = 1;

    static final int MESSAGE = 1;
    /** A message whose header and body were handed over apart, and may be handed over apart to the receiver. */
    static final int PARTS = 2;
    static final int MESSAGE_HEADER = 8;

    private static final int ALIGNMENT = 8;
    private static final int KIND_BITS = 8;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final long PREAMBLE_MAGIC = 0x0131_7063_742d_7473L;
    private static final long REPLY_MAGIC = 0x0132_7063_742d_7473L;

    private Unit() { }

    static int padding(int length) {
        return -length & ALIGNMENT - 1;
    }

    /** Returns the length of the unit that carries a message. */
    static int messageUnit(int length) {
        return MESSAGE_HEADER + length + padding(length);
    }

    static void putPreamble(MutableDirectBuffer buffer, int at, long wire) {
        buffer.putLong(at, PREAMBLE_MAGIC, ORDER);
        buffer.putLong(at + 8, wire, ORDER);
    }

    static boolean isPreamble(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == PREAMBLE_MAGIC;
    }

    static void putReply(MutableDirectBuffer buffer, int at, long wire) {
        buffer.putLong(at, REPLY_MAGIC, ORDER);
        buffer.putLong(at + 8, wire, ORDER);
    }

    static boolean isReply(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == REPLY_MAGIC;
    }

    /** Returns the number of the wire that sent a preamble or a reply. */
    static long wire(DirectBuffer buffer, int at) {
        return buffer.getLong(at + 8, ORDER);
    }

    static void putMessageHeader(MutableDirectBuffer buffer, int at, int length) {
        buffer.putInt(at, MESSAGE, ORDER);
        buffer.putInt(at + 4, length, ORDER);
    }

    static void putPartsHeader(MutableDirectBuffer buffer, int at, int headerLength, int length) {
        buffer.putInt(at, PARTS | headerLength << KIND_BITS, ORDER);
        buffer.putInt(at + 4, length, ORDER);
    }

    static int kind(DirectBuffer buffer, int at) {
        return buffer.getInt(at, ORDER) & (1 << KIND_BITS) - 1;
    }

    /** Returns the length of the header of a message in parts, and 0 for one that is whole. */
    static int partLength(DirectBuffer buffer, int at) {
        return buffer.getInt(at, ORDER) >>> KIND_BITS;
    }

    static int messageLength(DirectBuffer buffer, int at) {
        return buffer.getInt(at + 4, ORDER);
    }
}
