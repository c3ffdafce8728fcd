package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/** Reads the control messages that {@link Outbox} sends, and puts together those that arrive in pieces. */
public final class Inbox {
    private final Pieces pieces = new Pieces();

    public Inbox() { }

    /**
     * Reads a message of a transport.
     *
     * @return {@code null} if it is not the end of a control message, or, after a warning, if that is malformed
     */
    public @Nullable Control read(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int channel = length < Channels.HEADER ? -1 : buffer.getInt(offset, Channels.ORDER);
        int body = offset + Channels.HEADER;
        int bodyLength = length - Channels.HEADER;
        if (channel == Channels.CONTROL) {
            return Control.read(from, buffer, body, bodyLength);
        }
        byte[] whole = channel == Channels.CONTROL_PIECES ? pieces.add(from, buffer, body, bodyLength) : null;
        return whole == null ? null : Control.read(from, new UnsafeBuffer(whole), 0, whole.length);
    }
}
