package dev.starling.distributed.coordinator;

import dev.starling.distributed.group.Control;
import dev.starling.distributed.group.Outbox;
import dev.starling.transport.Endpoint;

/** A process that has joined, as its coordinator knows it. */
final class Participant {
    final long id;
    final Control.Join join;
    final Outbox outbox;
    /** The last epoch in which it was connected to all members. */
    long ready;

    Participant(long id, Control.Join join, Endpoint endpoint) {
        this.id = id;
        this.join = join;
        outbox = new Outbox(endpoint);
    }
}
