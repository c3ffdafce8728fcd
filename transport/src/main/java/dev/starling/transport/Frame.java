package dev.starling.transport;

import java.nio.ByteOrder;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The unit that travels over a wire. Every frame begins with 32 bytes, little endian:
 *
 * <pre>
 *  0 magic     u16
 *  2 version   u8
 *  3 type      u8
 *  4 length    i32   of the whole frame, in bytes
 *  8 session   i64   number that the receiver gave to the session; 0 in HELLO
 * 16 sequence  i64   of the frame in its session and direction, from 1; 0 during the handshake
 * 24 checksum  i64   XXH64 of all other bytes, seeded with the session's key; with 0 in HELLO, CHALLENGE, REFUSAL
 * </pre>
 *
 * <p>The header of a PUT has 40 more bytes: region i64, token i64, offset i64, immediate i64, operation i32, flags i32.
 * The checksum chains the header, the extra bytes of a PUT, and the body; a body of 256 bytes or more is represented by
 * its length and CRC-32C.
 */
final class Frame {
    static final int HEADER = 32;
    static final int PUT_HEADER = 72;

    static final byte HELLO = 1;
    static final byte CHALLENGE = 2;
    static final byte PROOF = 3;
    static final byte WELCOME = 4;
    static final byte MESSAGE = 5;
    static final byte PUT = 6;
    static final byte PUT_DONE = 7;
    static final byte HEARTBEAT = 8;
    static final byte GOODBYE = 9;
    static final byte REFUSAL = 10;

    static final int PUT_LAST = 1;
    static final int PUT_IMMEDIATE = 2;
    /** The sender waits for an acknowledgement of this put. */
    static final int PUT_AWAITED = 4;

    static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private static final short MAGIC = (short) 0x5354;
    private static final byte VERSION = 1;
    private static final int CHECKSUM = 24;

    private Frame() { }

    /** Writes a header. The rest of the head, up to {@code headLength}, must already be in place. */
    static void seal(BodyChecksum bodies, MutableDirectBuffer head, int headLength, byte type, long session,
            long sequence, long key, DirectBuffer body, int bodyOffset, int bodyLength) {
        head.putShort(0, MAGIC, ORDER);
        head.putByte(2, VERSION);
        head.putByte(3, type);
        head.putInt(4, headLength + bodyLength, ORDER);
        head.putLong(8, session, ORDER);
        head.putLong(16, sequence, ORDER);
        long sum = Checksum.of(key, head, 0, CHECKSUM);
        if (headLength > HEADER) {
            sum = Checksum.of(sum, head, HEADER, headLength - HEADER);
        }
        if (bodyLength > 0) {
            sum = bodies.of(sum, body, bodyOffset, bodyLength);
        }
        head.putLong(CHECKSUM, sum, ORDER);
    }

    /** Returns whether these bytes are a frame of this version, as far as can be checked without a key. */
    static boolean isFrame(DirectBuffer buffer, int offset, int length) {
        return length >= HEADER && buffer.getShort(offset, ORDER) == MAGIC && buffer.getByte(offset + 2) == VERSION
                && buffer.getInt(offset + 4, ORDER) == length
                && (type(buffer, offset) != PUT || length >= PUT_HEADER);
    }

    /** Returns whether the checksum matches. */
    static boolean isWhole(BodyChecksum bodies, DirectBuffer buffer, int offset, int length, long key) {
        int head = type(buffer, offset) == PUT ? PUT_HEADER : HEADER;
        long sum = Checksum.of(key, buffer, offset, CHECKSUM);
        if (head > HEADER) {
            sum = Checksum.of(sum, buffer, offset + HEADER, head - HEADER);
        }
        if (length > head) {
            sum = bodies.of(sum, buffer, offset + head, length - head);
        }
        return sum == buffer.getLong(offset + CHECKSUM, ORDER);
    }

    static byte type(DirectBuffer buffer, int offset) {
        return buffer.getByte(offset + 3);
    }

    static long session(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset + 8, ORDER);
    }

    static long sequence(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset + 16, ORDER);
    }
}
