package dev.starling.distributed.group;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Puts a control message together that arrives in pieces, such as the view of a thousand members. A piece has the
 * length of the whole message and its own offset there; pieces of one link arrive in order.
 */
final class Pieces {
    /** Maximum length of a piece; fits into a message of any transport. */
    static final int MAX_PIECE = 16 << 10;
    /** Maximum length of a message: the view of as many members as a group may have. */
    private static final int MAX_BYTES = Control.MAX_MEMBERS * 1024;
    private static final int LENGTH = 0;
    private static final int OFFSET = 4;
    private static final int PAYLOAD = 8;

    private byte[] whole = {};
    private int arrived;

    /** Divides the body of a message into messages of the channel {@link Channels#CONTROL_PIECES}. */
    static List<byte[]> of(byte[] body) {
        List<byte[]> pieces = new ArrayList<>();
        for (int at = 0; at < body.length; at += MAX_PIECE) {
            int length = Math.min(MAX_PIECE, body.length - at);
            pieces.add(ByteBuffer.allocate(Channels.HEADER + PAYLOAD + length).order(Channels.ORDER)
                    .putInt(Channels.CONTROL_PIECES).putInt(body.length).putInt(at).put(body, at, length).array());
        }
        return pieces;
    }

    /** Adds a piece; returns the whole message if this was its last piece, otherwise {@code null}. */
    byte @Nullable [] add(DirectBuffer buffer, int offset, int length) {
        int bytes = length - PAYLOAD;
        int all = bytes < 0 ? 0 : buffer.getInt(offset + LENGTH, Channels.ORDER);
        int at = bytes < 0 ? 0 : buffer.getInt(offset + OFFSET, Channels.ORDER);
        if (bytes <= 0 || all > MAX_BYTES || at > 0 && (at != arrived || all != whole.length) || bytes > all - at) {
            return null;
        }
        if (at == 0) {
            whole = new byte[all];
        }
        buffer.getBytes(offset + PAYLOAD, whole, at, bytes);
        arrived = at + bytes;
        if (arrived < whole.length) {
            return null;
        }
        byte[] complete = whole;
        whole = new byte[0];
        arrived = 0;
        return complete;
    }
}
