package dev.starling.distributed.coordinator;

import dev.starling.distributed.group.Outbox;
import java.util.ArrayList;
import java.util.List;

/** Last messages to processes that were refused or excluded, until they are delivered. */
final class Farewells {
    private final List<Outbox> outboxes = new ArrayList<>();

    void add(Outbox outbox) {
        outboxes.add(outbox);
    }

    boolean isEmpty() {
        return outboxes.isEmpty();
    }

    int doWork() {
        int work = 0;
        for (int i = outboxes.size() - 1; i >= 0; i--) {
            work += outboxes.get(i).doWork();
            if (isDelivered(outboxes.get(i))) {
                outboxes.remove(i);
            }
        }
        return work;
    }

    /** Returns whether all messages are on their way, or cannot be delivered any more. */
    static boolean isDelivered(Outbox outbox) {
        return outbox.isEmpty() || !outbox.endpoint().isConnected();
    }
}
