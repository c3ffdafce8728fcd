package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * Puts control messages together that arrive in pieces, such as the view of a thousand members. A piece has the length
 * of the whole message and its own offset there; pieces of one link arrive in order, and those of several links between
 * each other.
 */
final class Pieces {
    /** Maximum length of a piece; fits into a message of any transport. */
    static final int MAX_PIECE = 16 << 10;
    /** Maximum length of a message: the view of as many members as a group may have. */
    static final int MAX_BYTES = Control.MAX_MEMBERS * 1024;
    /**
     * Maximum length of all messages of which pieces are missing. One that exceeds it is dropped, and a member that
     * then gets no answer from a coordinator asks again.
     */
    static final int MAX_PARTIAL_BYTES = 16 * MAX_BYTES;
    private static final int LENGTH = 0;
    private static final int OFFSET = 4;
    private static final int PAYLOAD = 8;

    /** By sender, the messages of which pieces are missing; the position is behind the last piece that has arrived. */
    private final Map<Endpoint, ByteBuffer> partials = new HashMap<>();

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
    byte @Nullable [] add(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int bytes = length - PAYLOAD;
        int all = bytes < 0 ? 0 : buffer.getInt(offset + LENGTH, Channels.ORDER);
        int at = bytes < 0 ? 0 : buffer.getInt(offset + OFFSET, Channels.ORDER);
        if (bytes <= 0 || all > MAX_BYTES || bytes > all - at || at < 0) {
            return null;
        }
        ByteBuffer partial = at == 0 ? begin(from, all) : partials.get(from);
        if (partial == null || at != partial.position() || all != partial.capacity()) {
            return null;
        }
        buffer.getBytes(offset + PAYLOAD, partial, bytes);
        if (partial.hasRemaining()) {
            return null;
        }
        partials.remove(from);
        return partial.array();
    }

    /** Makes room for a message; returns {@code null} if there is none. Forgets those of senders that are lost. */
    private @Nullable ByteBuffer begin(Endpoint from, int length) {
        partials.remove(from);
        partials.keySet().removeIf(sender -> !sender.isConnected());
        if (partials.values().stream().mapToInt(ByteBuffer::capacity).sum() + length > MAX_PARTIAL_BYTES) {
            return null;
        }
        ByteBuffer partial = ByteBuffer.allocate(length);
        partials.put(from, partial);
        return partial;
    }
}
