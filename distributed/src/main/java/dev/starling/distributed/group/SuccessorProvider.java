package dev.starling.distributed.group;

import dev.starling.distributed.View;
import dev.starling.transport.Transport;
import java.util.function.LongPredicate;

/**
 * Opens the coordinator that takes the place of a lost one, in the process of a member. It is found as a service,
 * because the package of coordinators uses this one.
 */
public interface SuccessorProvider {
    /**
     * Opens a coordinator.
     *
     * @param transport which the coordinator then owns
     * @param rules of the group
     * @param started the last epoch that has started, as this member knows it
     * @param seen the last epoch that was proposed, as this member knows it; it may have started for others
     * @param rank of this member
     * @param isReached returns whether this member is connected to the member of an id; the coordinator waits for those
     */
    Successor open(Transport transport, Control.Rules rules, View started, View seen, int rank, LongPredicate isReached);

    /** A coordinator in the process of a member, which drives it. */
    interface Successor extends AutoCloseable {
        /** Returns the address at which members reach it. */
        String address();

        /** Does some work; returns the amount. */
        int doWork();

        /** Returns whether no process needs it any more. */
        boolean isDone();

        @Override
        void close();
    }
}
