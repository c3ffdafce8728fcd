package dev.starling.distributed.gossip;

import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * What a worker tells each peer first: where it takes weights, and which.
 *
 * @param first number of the member whose weights the sender waits for, or {@link #NONE}
 * @param key of the memory that the receiver may write weights into
 * @param layout of that memory
 */
record Offer(long first, byte[] key, String layout) {
    /** In place of the first of all: the sender has weights already. */
    static final long NONE = -1;

    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int KEY_AT = 12;

    /** Writes the offer and returns where it ends. */
    int encode(MutableDirectBuffer buffer, int offset) {
        byte[] text = layout.getBytes(StandardCharsets.UTF_8);
        buffer.putLong(offset, first, ORDER);
        buffer.putInt(offset + 8, key.length, ORDER);
        buffer.putBytes(offset + KEY_AT, key);
        buffer.putInt(offset + KEY_AT + key.length, text.length, ORDER);
        buffer.putBytes(offset + KEY_AT + 4 + key.length, text);
        return offset + KEY_AT + 4 + key.length + text.length;
    }

    /** Reads an offer; {@code null} if the lengths in it do not add up to its own. */
    static Offer decode(DirectBuffer buffer, int offset, int length) {
        int fixed = KEY_AT + 4;
        int keyLength = length < fixed ? -1 : buffer.getInt(offset + 8, ORDER);
        int textLength = keyLength < 0 || keyLength > length - fixed ? -1
                : buffer.getInt(offset + KEY_AT + keyLength, ORDER);
        if (textLength < 0 || textLength != length - fixed - keyLength) {
            return null;
        }
        byte[] key = new byte[keyLength];
        buffer.getBytes(offset + KEY_AT, key);
        byte[] text = new byte[textLength];
        buffer.getBytes(offset + fixed + keyLength, text);
        return new Offer(buffer.getLong(offset, ORDER), key, new String(text, StandardCharsets.UTF_8));
    }
}
