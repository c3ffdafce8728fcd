package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/**
 * The message handlers of the channels. Another member may send on a channel before this process has set its handler;
 * such messages are kept for the first handler.
 */
final class Handlers {
    /** By channel; {@code null} where none is set. */
    private final @Nullable MessageHandler[] handlers = new MessageHandler[Channels.COUNT];
    private final boolean[] opened = new boolean[Channels.COUNT];
    private final EarlyMessages early = new EarlyMessages();

    /** Sets the handler of a channel, {@code null} for none; delivers early messages to the first handler. */
    void set(int channel, @Nullable MessageHandler handler) {
        handlers[channel] = handler;
        opened[channel] = true;
        early.deliver(channel, (from, buffer, offset, length) -> dispatch(channel, from, buffer, offset, length));
    }

    void dispatch(int channel, Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (channel < 0 || channel >= Channels.COUNT) {
            return;
        }
        MessageHandler handler = handlers[channel];
        if (handler != null) {
            handler.onMessage(from, buffer, offset, length);
        } else if (!opened[channel]) {
            early.add(channel, from, buffer, offset, length);
        }
    }
}
