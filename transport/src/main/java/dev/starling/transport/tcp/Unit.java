package dev.starling.transport.tcp;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * What travels over a connection. All numbers are little endian, and every unit ends at a multiple of 8 bytes, so that
 * data that lie aligned at the sender also lie aligned in the receive buffer.
 *
 * <pre>
 * from the link       PREAMBLE  magic i64, wire i64; another magic asks for a TICKET
 *                     MESSAGE   kind i32, length i32, message, padding
 *                     PARTS     the same; the kind also has the length of the message's header
 *                     RAIL      magic i64, ticket i64: a further connection of a link
 * from the receiver   REPLY     magic i64, wire i64
 *                     TICKET    magic i64, ticket i64, if asked for, when the peer is proven
 *                     BUSY      u8, before it closes a connection whose peer is unproven: the link may try again
 * </pre>
 *
 * <p>A message of a link with several connections is numbered: a flag in its kind says that the number, i64, follows
 * the length. Messages without number count, too.
 */
final class Unit {
    static final int PREAMBLE = 16;
    static final int REPLY = 16;
    static final byte BUSY = 1;

    static final int MESSAGE = 1;
    /** A message whose header and body were handed over apart, and may be handed over apart to the receiver. */
    static final int PARTS = 2;
    static final int MESSAGE_HEADER = 8;
    static final int NUMBER = Long.BYTES;
    static final int TICKET = 16;

    private static final int ALIGNMENT = 8;
    private static final int KIND_BITS = 8;
    private static final int NUMBERED = 0x80;
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final long PREAMBLE_MAGIC = 0x0131_7063_742d_7473L;
    private static final long REPLY_MAGIC = 0x0132_7063_742d_7473L;
    private static final long RAIL_MAGIC = 0x0133_7063_742d_7473L;
    private static final long ASKING_MAGIC = 0x0135_7063_742d_7473L;
    private static final long TICKET_MAGIC = 0x0134_7063_742d_7473L;

    private Unit() { }

    static int padding(int length) {
        return -length & ALIGNMENT - 1;
    }

    /** Returns the length of the unit that carries a message. */
    static int messageUnit(int length) {
        return MESSAGE_HEADER + length + padding(length);
    }

    static void putPreamble(MutableDirectBuffer buffer, int at, long wire, boolean asksForTicket) {
        buffer.putLong(at, asksForTicket ? ASKING_MAGIC : PREAMBLE_MAGIC, ORDER);
        buffer.putLong(at + 8, wire, ORDER);
    }

    static boolean isPreamble(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == PREAMBLE_MAGIC || asksForTicket(buffer, at);
    }

    /** Returns whether a preamble is of a link that may open further connections. */
    static boolean asksForTicket(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == ASKING_MAGIC;
    }

    static void putRail(MutableDirectBuffer buffer, int at, long ticket) {
        buffer.putLong(at, RAIL_MAGIC, ORDER);
        buffer.putLong(at + 8, ticket, ORDER);
    }

    static boolean isRail(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == RAIL_MAGIC;
    }

    static void putTicket(MutableDirectBuffer buffer, int at, long ticket) {
        buffer.putLong(at, TICKET_MAGIC, ORDER);
        buffer.putLong(at + 8, ticket, ORDER);
    }

    static boolean isTicket(DirectBuffer buffer, int at) {
        return buffer.getLong(at, ORDER) == TICKET_MAGIC;
    }

    /** Returns the ticket of a TICKET or a RAIL. */
    static long ticket(DirectBuffer buffer, int at) {
        return buffer.getLong(at + 8, ORDER);
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

    /** Numbers a message whose header is in place. */
    static void putNumber(MutableDirectBuffer buffer, int at, long number) {
        buffer.putInt(at, buffer.getInt(at, ORDER) | NUMBERED, ORDER);
        buffer.putLong(at + MESSAGE_HEADER, number, ORDER);
    }

    static boolean isNumbered(DirectBuffer buffer, int at) {
        return (buffer.getInt(at, ORDER) & NUMBERED) != 0;
    }

    static long number(DirectBuffer buffer, int at) {
        return buffer.getLong(at + MESSAGE_HEADER, ORDER);
    }

    static int kind(DirectBuffer buffer, int at) {
        return buffer.getInt(at, ORDER) & NUMBERED - 1;
    }

    /** Returns the length of the header of a message in parts, and 0 for one that is whole. */
    static int partLength(DirectBuffer buffer, int at) {
        return buffer.getInt(at, ORDER) >>> KIND_BITS;
    }

    static int messageLength(DirectBuffer buffer, int at) {
        return buffer.getInt(at + 4, ORDER);
    }
}
