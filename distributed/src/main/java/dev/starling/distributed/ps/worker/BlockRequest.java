package dev.starling.distributed.ps.worker;

import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import org.agrona.concurrent.UnsafeBuffer;

/** A worker's requests for one block of a parameter. At most one request is open at a time. */
final class BlockRequest {
    final ServerLink server;
    /** BlockRequest number on the server. */
    final int number;
    final Plan.Block block;
    /** The weights received last. */
    final UnsafeBuffer weights;
    /** State of the rule by slot, if this worker writes it to checkpoints. */
    UnsafeBuffer[] kept = {};
    /** Number of steps that led to {@link #kept}; 0 if the server must not receive it. */
    long keptSteps;
    /** What a pull requests: 0 for weights, from 1 on a slot of the rule's state. */
    int which;
    /** The gradient to push. */
    final UnsafeBuffer gradient = new UnsafeBuffer(0, 0);
    long session;
    /** Sequence number of the next push. */
    long sequence;
    /** Kind of the open request, or 0. */
    int asked;
    double rate;
    /** Kind of the request that follows when the worker has rejoined, or 0. */
    int next;
    boolean queued;

    BlockRequest(ServerLink server, int number, Plan.Block block, UnsafeBuffer weights) {
        this.server = server;
        this.number = number;
        this.block = block;
        this.weights = weights;
    }

    /** Returns the destination of the open request's reply. */
    UnsafeBuffer target() {
        return asked == Message.PULL && which > 0 ? kept[which - 1] : weights;
    }

    int bytes() {
        return 4 * block.length();
    }
}
