package dev.starling.distributed.ps;

import org.agrona.concurrent.UnsafeBuffer;

/** A block of a parameter as its worker sees it. At most one request is under way. */
final class Unit {
    final ServerLink server;
    /** Number on its server. */
    final int number;
    final Plan.Block block;
    /** The weights that came last. */
    final UnsafeBuffer weights;
    /** The gradient to push. */
    final UnsafeBuffer gradient = new UnsafeBuffer(0, 0);
    long session;
    /** Of the next push. */
    long sequence;
    /** Kind of the request that is under way, or 0. */
    int asked;
    double rate;
    /** Whether a push is to follow when the server knows this worker again. */
    boolean pushesNext;
    boolean isQueued;

    Unit(ServerLink server, int number, Plan.Block block, UnsafeBuffer weights) {
        this.server = server;
        this.number = number;
        this.block = block;
        this.weights = weights;
    }

    int bytes() {
        return 4 * block.length();
    }
}
