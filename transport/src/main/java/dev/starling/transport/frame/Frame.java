package dev.starling.transport.frame;

import java.nio.ByteOrder;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;
import org.jspecify.annotations.Nullable;

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
 * <p>Between hosts, frames after the handshake have the number of a nonce instead of the checksum, and a tag at their
 * end; all behind these 32 bytes may be encrypted.
 *
 * <p>The header of a PUT has 40 more bytes: region i64, token i64, offset i64, immediate i64, operation i32, flags i32.
 * The checksum chains the header, the extra bytes of a PUT, and the body; a body of 256 bytes or more is represented by
 * its length and CRC-32C, that of a PUT with the flag PUT_BARE by nothing.
 */
public final class Frame {
    /** Length in bytes of the header that all frames have. */
    public static final int HEADER = 32;
    /** Length in bytes of the header of a PUT. */
    public static final int PUT_HEADER = 72;

    /** First message of a handshake; what the messages contain is defined by the handshake. */
    public static final byte HELLO = 1;
    /** Answers a HELLO. */
    public static final byte CHALLENGE = 2;
    /** Answers a CHALLENGE. */
    public static final byte PROOF = 3;
    /** Answers a PROOF; the first frame that is numbered and sealed with the session's key. */
    public static final byte WELCOME = 4;
    /** The body is the application's. */
    public static final byte MESSAGE = 5;
    /** The body is written into the receiver's memory. */
    public static final byte PUT = 6;
    /** Acknowledges puts; the body is the number of those that have arrived, i64. */
    public static final byte PUT_DONE = 7;
    /** Sign of life. */
    public static final byte HEARTBEAT = 8;
    /** Ends the session; the body is the reason, or empty if the sender closed its end. */
    public static final byte GOODBYE = 9;
    /** Answers the HELLO of a process with a different secret. */
    public static final byte REFUSAL = 10;

    /** Offset in a PUT of the number of the receiver's region. */
    public static final int PUT_REGION = HEADER;
    /** Offset in a PUT of the region's token. */
    public static final int PUT_TOKEN = PUT_REGION + Long.BYTES;
    /** Offset in a PUT of the place of the data in the region, in bytes. */
    public static final int PUT_OFFSET = PUT_TOKEN + Long.BYTES;
    /** Offset in a PUT of the value for the receiver's handler. */
    public static final int PUT_VALUE = PUT_OFFSET + Long.BYTES;
    /** Offset in a PUT of the operation, which is 0. */
    public static final int PUT_OPERATION = PUT_VALUE + Long.BYTES;
    /** Offset in a PUT of the flags. */
    public static final int PUT_FLAGS = PUT_OPERATION + Integer.BYTES;

    /** Flag: the last piece of a put. */
    public static final int PUT_LAST = 1;
    /** Flag: the receiver's handler is notified. */
    public static final int PUT_IMMEDIATE = 2;
    /** Flag: the sender waits for an acknowledgement of this put. */
    public static final int PUT_AWAITED = 4;

    /** Flag: the checksum does not cover the body. */
    public static final int PUT_BARE = 8;

    /** Byte order of all numbers in frames. */
    public static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;

    private static final int VERSION_AT = 2;
    private static final int TYPE = 3;
    private static final int LENGTH = 4;
    private static final int SESSION = 8;
    private static final int SEQUENCE = 16;
    private static final short MAGIC = (short) 0x5354;
    private static final byte VERSION = 2;
    private static final int CHECKSUM = 24;

    private Frame() { }

    /** Writes a header with a checksum. The rest of the head, up to {@code headLength}, must already be in place. */
    public static void seal(BodyChecksum bodies, MutableDirectBuffer head, int headLength, byte type, long session,
            long sequence, long key, @Nullable DirectBuffer body, int bodyOffset, int bodyLength) {
        putHeader(head, type, session, sequence, headLength + bodyLength);
        long sum = Checksum.of(key, head, 0, CHECKSUM);
        if (headLength > HEADER) {
            sum = Checksum.of(sum, head, HEADER, headLength - HEADER);
        }
        if (bodyLength > 0 && !isBare(head, 0)) {
            sum = bodies.of(sum, Objects.requireNonNull(body), bodyOffset, bodyLength);
        }
        head.putLong(CHECKSUM, sum, ORDER);
    }

    /** Writes a header but for its last 8 bytes, the checksum or the number of the nonce. */
    public static void putHeader(MutableDirectBuffer head, byte type, long session, long sequence, int length) {
        head.putShort(0, MAGIC, ORDER);
        head.putByte(VERSION_AT, VERSION);
        head.putByte(TYPE, type);
        head.putInt(LENGTH, length, ORDER);
        head.putLong(SESSION, session, ORDER);
        head.putLong(SEQUENCE, sequence, ORDER);
    }

    /** Writes the number of the nonce of a frame that is protected. */
    public static void putNonce(MutableDirectBuffer head, long nonce) {
        head.putLong(CHECKSUM, nonce, ORDER);
    }

    /** Returns the number of the nonce of a frame that is protected. */
    public static long nonce(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset + CHECKSUM, ORDER);
    }

    private static boolean isBare(DirectBuffer head, int at) {
        return type(head, at) == PUT && (head.getInt(at + PUT_FLAGS, ORDER) & PUT_BARE) != 0;
    }

    /** Returns whether these bytes are a frame of this version, as far as can be checked without a key. */
    public static boolean isFrame(DirectBuffer buffer, int offset, int length) {
        return length >= HEADER && buffer.getShort(offset, ORDER) == MAGIC
                && buffer.getByte(offset + VERSION_AT) == VERSION && buffer.getInt(offset + LENGTH, ORDER) == length
                && (type(buffer, offset) != PUT || length >= PUT_HEADER);
    }

    /** Returns whether the frame arrived as it was sealed with this key. */
    public static boolean isSealed(BodyChecksum bodies, DirectBuffer buffer, int offset, int length, long key) {
        int head = headLength(type(buffer, offset));
        return isSealed(bodies, buffer, offset, buffer, offset + head, length - head, key);
    }

    /** Returns whether a frame whose body may lie elsewhere arrived as it was sealed with this key. */
    public static boolean isSealed(BodyChecksum bodies, DirectBuffer head, int at, DirectBuffer body, int bodyOffset,
            int bodyLength, long key) {
        int headLength = headLength(type(head, at));
        long sum = Checksum.of(key, head, at, CHECKSUM);
        if (headLength > HEADER) {
            sum = Checksum.of(sum, head, at + HEADER, headLength - HEADER);
        }
        if (bodyLength > 0 && !isBare(head, at)) {
            sum = bodies.of(sum, body, bodyOffset, bodyLength);
        }
        return sum == head.getLong(at + CHECKSUM, ORDER);
    }

    /** Returns the length of the header of a frame of this type. */
    public static int headLength(byte type) {
        return type == PUT ? PUT_HEADER : HEADER;
    }

    /** Returns the type. */
    public static byte type(DirectBuffer buffer, int offset) {
        return buffer.getByte(offset + TYPE);
    }

    /** Returns the length of the whole frame in bytes. */
    public static int length(DirectBuffer buffer, int offset) {
        return buffer.getInt(offset + LENGTH, ORDER);
    }

    /** Returns the number that the receiver gave to the session. */
    public static long session(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset + SESSION, ORDER);
    }

    /** Returns the number of the frame. */
    public static long sequence(DirectBuffer buffer, int offset) {
        return buffer.getLong(offset + SEQUENCE, ORDER);
    }
}
