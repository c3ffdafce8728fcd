package dev.starling.transport.simulated;

import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;

/**
 * The flows that are not running: those that are ready, and the others in the order in which they wake. A turn costs
 * the logarithm of their number, so that a simulation can have a thousand processes.
 */
final class RunQueue {
    /** Up to this number of ready flows, the choice draws one number for each, which is what old seeds stand for. */
    private static final int MAX_DRAWS = 64;
    private static final Comparator<Flow> BY_NUMBER = Comparator.comparingLong(flow -> flow.number);

    private final TreeSet<Flow> asleep = new TreeSet<>(Comparator.<Flow>comparingLong(flow -> flow.dueNs)
            .thenComparing(BY_NUMBER));
    /** In the order of their numbers. */
    private final List<Flow> ready = new ArrayList<>();

    /** Adds a flow that waits from now on. */
    void add(Flow flow, long now) {
        flow.dueNs = flow.wakeNs();
        if (flow.waitsOn != null) {
            flow.waitsOn.waiting().add(flow);
        }
        insert(flow, now);
    }

    private void insert(Flow flow, long now) {
        flow.queued = true;
        if (flow.dueNs > now) {
            asleep.add(flow);
        } else {
            ready.add(-1 - place(flow), flow);
        }
    }

    private int place(Flow flow) {
        return Collections.binarySearch(ready, flow, BY_NUMBER);
    }

    /** Removes a flow, which is about to run or has ended, if it is there. */
    void remove(Flow flow) {
        if (flow.waitsOn != null) {
            flow.waitsOn.waiting().remove(flow);
        }
        extract(flow);
    }

    private void extract(Flow flow) {
        if (flow.queued) {
            flow.queued = false;
            if (!asleep.remove(flow)) {
                ready.remove(place(flow));
            }
        }
    }

    /** Considers that flows may now wake at other times. */
    void refresh(List<Flow> flows, long now) {
        for (int i = 0; i < flows.size(); i++) {
            Flow flow = flows.get(i);
            long dueNs = flow.wakeNs();
            if (flow.queued && dueNs != flow.dueNs) {
                extract(flow);
                flow.dueNs = dueNs;
                insert(flow, now);
            }
        }
    }

    /** Returns when the next flow wakes that is not ready. */
    long nextNs() {
        return asleep.isEmpty() ? Long.MAX_VALUE : asleep.first().dueNs;
    }

    /** Returns a flow that is ready, or {@code null} if none is. */
    @Nullable Flow choose(long now, SplittableRandom random) {
        while (!asleep.isEmpty() && asleep.first().dueNs <= now) {
            Flow flow = asleep.pollFirst();
            ready.add(-1 - place(flow), flow);
        }
        if (ready.size() > MAX_DRAWS) {
            return ready.get(random.nextInt(ready.size()));
        }
        Flow chosen = ready.isEmpty() ? null : ready.getFirst();
        for (int i = 1; i < ready.size(); i++) {
            if (random.nextInt(i + 1) == 0) {
                chosen = ready.get(i);
            }
        }
        return chosen;
    }
}
