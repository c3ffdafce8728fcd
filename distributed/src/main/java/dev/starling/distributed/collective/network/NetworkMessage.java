package dev.starling.distributed.collective.network;

import dev.starling.distributed.collective.call.CollectiveCall;
import dev.starling.distributed.collective.call.EpochMessages;
import org.agrona.DirectBuffer;
import org.agrona.MutableDirectBuffer;

/** A message about a collective, after the header of {@link EpochMessages}: a view of a buffer. */
final class NetworkMessage {
    /** The call of the sender, to its successor. */
    static final int CALL = 1;
    /** The sender's elements may be overwritten; to its predecessor. */
    static final int READY = 2;
    /** Blocks that the sender has gathered; the number is that of the round, and the first has the call's text. */
    static final int BLOCKS = 3;
    /** Number of pieces that the sender has reduced, shifted by one, and the number of its ring; to its predecessor. */
    static final int CREDIT = 4;

    private static final int TYPE = 0;
    private static final int TEXT_LENGTH = 4;
    private static final int SEQUENCE = 8;
    private static final int HASH = 16;
    private static final int NUMBER = 24;
    private static final int TEXT = 32;

    /** Maximum length in bytes of a message without its payload. */
    static final int MAX_BYTES = TEXT + CollectiveCall.MAX_TEXT;

    /** Set by {@link #wrap}. */
    @SuppressWarnings("NullAway.Init")
    private DirectBuffer buffer;
    private int offset;
    private int length;

    /** Writes a message, with or without the call's text; returns the offset of its payload. */
    static int write(MutableDirectBuffer out, int at, int type, long sequence, CollectiveCall call, long number,
            boolean withText) {
        byte[] text = call.textBytes();
        int textLength = withText ? text.length : 0;
        out.putInt(at + TYPE, type, EpochMessages.ORDER);
        out.putInt(at + TEXT_LENGTH, textLength, EpochMessages.ORDER);
        out.putLong(at + SEQUENCE, sequence, EpochMessages.ORDER);
        out.putLong(at + HASH, call.hash(), EpochMessages.ORDER);
        out.putLong(at + NUMBER, number, EpochMessages.ORDER);
        out.putBytes(at + TEXT, text, 0, textLength);
        return at + TEXT + textLength;
    }

    /** Views a message that has arrived; returns whether its lengths are valid. */
    boolean wrap(DirectBuffer newBuffer, int newOffset, int newLength) {
        buffer = newBuffer;
        offset = newOffset;
        length = newLength;
        return length >= TEXT && textLength() >= 0 && textLength() <= Math.min(length - TEXT, CollectiveCall.MAX_TEXT);
    }

    DirectBuffer buffer() {
        return buffer;
    }

    int type() {
        return buffer.getInt(offset + TYPE, EpochMessages.ORDER);
    }

    /** Returns the number of the collective. */
    long sequence() {
        return buffer.getLong(offset + SEQUENCE, EpochMessages.ORDER);
    }

    /** Returns the hash of the sender's call. */
    long hash() {
        return buffer.getLong(offset + HASH, EpochMessages.ORDER);
    }

    long number() {
        return buffer.getLong(offset + NUMBER, EpochMessages.ORDER);
    }

    int textLength() {
        return buffer.getInt(offset + TEXT_LENGTH, EpochMessages.ORDER);
    }

    /** Copies the text of the sender's call. */
    void text(byte[] into) {
        buffer.getBytes(offset + TEXT, into, 0, textLength());
    }

    /** Returns the offset of the payload in the buffer. */
    int payload() {
        return offset + TEXT + textLength();
    }

    int payloadLength() {
        return length - TEXT - textLength();
    }
}
