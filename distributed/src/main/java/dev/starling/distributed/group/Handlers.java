package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import java.util.ArrayList;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/**
 * The message handlers of the channels. Another member may send on a channel before this process has set its handler;
 * such messages are kept for the first handler.
 */
final class Handlers {
    private static final int MAX_EARLY = 1024;

    private final MessageHandler[] handlers = new MessageHandler[Channels.COUNT];
    private final boolean[] opened = new boolean[Channels.COUNT];
    private final List<Early> early = new ArrayList<>();

    private record Early(int channel, Endpoint from, byte[] body) { }

    /** Sets the handler of a channel, {@code null} for none; delivers early messages to the first handler. */
    void set(int channel, MessageHandler handler) {
        handlers[channel] = handler;
        opened[channel] = true;
        for (Early message : List.copyOf(early)) {
            if (message.channel == channel) {
                early.remove(message);
                dispatch(channel, message.from, new UnsafeBuffer(message.body), 0, message.body.length);
            }
        }
    }

    void dispatch(int channel, Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (channel < 0 || channel >= Channels.COUNT) {
            return;
        }
        if (handlers[channel] != null) {
            handlers[channel].onMessage(from, buffer, offset, length);
        } else if (!opened[channel] && early.size() < MAX_EARLY) {
            byte[] copy = new byte[length];
            buffer.getBytes(offset, copy);
            early.add(new Early(channel, from, copy));
        }
    }
}
