package dev.starling.distributed.group;

import dev.starling.transport.Endpoint;
import dev.starling.transport.MessageHandler;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.function.Predicate;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;

/** Messages that another member has sent before this process could handle them; of too many the newest are kept. */
final class EarlyMessages {
    private static final int MAX = 1024;

    private final Deque<Message> waiting = new ArrayDeque<>();

    private record Message(long receiver, Endpoint from, byte[] body) { }

    void add(long receiver, Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (waiting.size() == MAX) {
            waiting.remove();
        }
        byte[] body = new byte[length];
        buffer.getBytes(offset, body);
        waiting.add(new Message(receiver, from, body));
    }

    /** Passes a receiver's messages to its handler, in the order of their arrival. */
    void deliver(long receiver, MessageHandler handler) {
        for (Message message : List.copyOf(waiting)) {
            if (message.receiver == receiver) {
                waiting.remove(message);
                handler.onMessage(message.from, new UnsafeBuffer(message.body), 0, message.body.length);
            }
        }
    }

    void removeFrom(Predicate<Endpoint> senders) {
        waiting.removeIf(message -> senders.test(message.from));
    }
}
