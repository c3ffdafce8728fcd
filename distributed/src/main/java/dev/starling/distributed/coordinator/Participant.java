package dev.starling.distributed.coordinator;

import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Outbox;
import dev.starling.transport.Endpoint;

/** A process that has joined, as its coordinator knows it. */
final class Participant {
    final long id;
    final Control.Join join;
    final Outbox outbox;
    long joinedNs;
    /** The last epoch in which it was connected to all members that it needs. */
    long ready;
    /** The epoch that it is in without having lost a member, or 0. */
    long continued;
    /** The last epoch of whose start it was notified, and not of a missing quorum since then. */
    long notified;

    Participant(long id, Control.Join join, Endpoint endpoint) {
        this.id = id;
        this.join = join;
        outbox = new Outbox(endpoint);
    }
}
