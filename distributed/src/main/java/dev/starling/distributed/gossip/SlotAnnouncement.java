package dev.starling.distributed.gossip;

import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/**
 * The first message of a worker to each peer: the memory slot for the peer's weights, and its layout.
 *
 * @param firstId id of the member whose weights the sender waits for, or {@link #NONE}
 * @param key of the memory into which the receiver may write weights
 * @param layout of that memory
 */
record SlotAnnouncement(long firstId, byte[] key, String layout) {
    /** In place of a member's id: the sender has weights already. */
    static final long NONE = -1;

    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int KEY_OFFSET = 12;

    /** Writes the announcement and returns the offset of its end. */
    int encode(MutableDirectBuffer buffer, int offset) {
        byte[] text = layout.getBytes(StandardCharsets.UTF_8);
        buffer.putLong(offset, firstId, ORDER);
        buffer.putInt(offset + 8, key.length, ORDER);
        buffer.putBytes(offset + KEY_OFFSET, key);
        buffer.putInt(offset + KEY_OFFSET + key.length, text.length, ORDER);
        buffer.putBytes(offset + KEY_OFFSET + 4 + key.length, text);
        return offset + KEY_OFFSET + 4 + key.length + text.length;
    }

    /** Reads an announcement; {@code null} if the lengths in it do not add up to its own. */
    static SlotAnnouncement decode(DirectBuffer buffer, int offset, int length) {
        int fixed = KEY_OFFSET + 4;
        int keyLength = length < fixed ? -1 : buffer.getInt(offset + 8, ORDER);
        int textLength = keyLength < 0 || keyLength > length - fixed ? -1
                : buffer.getInt(offset + KEY_OFFSET + keyLength, ORDER);
        if (textLength < 0 || textLength != length - fixed - keyLength) {
            return null;
        }
        byte[] key = new byte[keyLength];
        buffer.getBytes(offset + KEY_OFFSET, key);
        byte[] text = new byte[textLength];
        buffer.getBytes(offset + fixed + keyLength, text);
        return new SlotAnnouncement(buffer.getLong(offset, ORDER), key, new String(text, StandardCharsets.UTF_8));
    }
}
