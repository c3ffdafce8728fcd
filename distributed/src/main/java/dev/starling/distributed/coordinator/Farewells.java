package dev.starling.distributed.coordinator;

import dev.starling.distributed.View;
import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Outbox;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Last messages to processes, until they are delivered: to those that were refused or excluded, and that a loss has
 * ended the group.
 */
final class Farewells {
    private final List<Outbox> outboxes = new ArrayList<>();
    /** Preferred ranks of processes that came after the end of the group. */
    private final Set<Integer> late = ConcurrentHashMap.newKeySet();
    private volatile int lost = -1;

    /** Adds the messages to a process; {@code lateRank} is its preferred rank if it came after the end, or -1. */
    void add(Outbox outbox, int lateRank) {
        outboxes.add(outbox);
        late.add(lateRank);
    }

    /** Returns whether a process with a preferred rank came after the end of the group. Any thread may call this. */
    boolean wasLate(int preferredRank) {
        return late.contains(preferredRank);
    }

    /** Returns the message that the loss of a member has ended the group. */
    Control.Lost loss(View view, LossReport report) {
        boolean member = report.rank() >= 0 && report.rank() < view.world();
        lost = member ? view.members().get(report.rank()).preferredRank() : -1;
        return new Control.Lost(view.epoch(), report);
    }

    /** Returns the preferred rank of the member whose loss has ended the group, or -1. Any thread may call this. */
    int lostRank() {
        return lost;
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
