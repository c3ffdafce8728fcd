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
    /** What the rule keeps of each, if this worker is who carries that to and from checkpoints. */
    UnsafeBuffer[] kept = {};
    /** After how many steps {@link #kept} was so, if the server is to be told. */
    long keptSteps;
    /** What is pulled: 0 for weights, from 1 on what is kept. */
    int which;
    /** The gradient to push. */
    final UnsafeBuffer gradient = new UnsafeBuffer(0, 0);
    long session;
    /** Of the next push. */
    long sequence;
    /** Kind of the request that is under way, or 0. */
    int asked;
    double rate;
    /** Kind of the request that is to follow when the server knows this worker again, or 0. */
    int next;
    boolean isQueued;

    Unit(ServerLink server, int number, Plan.Block block, UnsafeBuffer weights) {
        this.server = server;
        this.number = number;
        this.block = block;
        this.weights = weights;
    }

    /** Returns where what is asked for goes. */
    UnsafeBuffer target() {
        return asked == Message.PULL && which > 0 ? kept[which - 1] : weights;
    }

    int bytes() {
        return 4 * block.length();
    }
}
