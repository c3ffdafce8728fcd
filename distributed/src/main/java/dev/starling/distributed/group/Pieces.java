package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
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

    /** The sender of the pieces that have arrived, or {@code null} if there are none. */
    private @Nullable Endpoint sender;
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

    /** Passes the message of which this is the last piece to its handler. */
    void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length, MessageHandler handler) {
        byte[] complete = add(from, buffer, offset, length);
        if (complete != null) {
            handler.onMessage(from, new UnsafeBuffer(complete), 0, complete.length);
        }
    }

    /** Adds a piece; returns the whole message if this was its last piece, otherwise {@code null}. */
    private byte @Nullable [] add(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int bytes = length - PAYLOAD;
        int all = bytes < 0 ? 0 : buffer.getInt(offset + LENGTH, Channels.ORDER);
        int at = bytes < 0 ? 0 : buffer.getInt(offset + OFFSET, Channels.ORDER);
        if (bytes <= 0 || all > MAX_BYTES || bytes > all - at || at < 0
                || at > 0 && (from != sender || at != arrived || all != whole.length)) {
            return null;
        }
        if (at == 0) {
            whole = new byte[all];
            sender = from;
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
