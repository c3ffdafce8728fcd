package dev.starling.transport.simulated;

import dev.starling.transport.simulated.MessagePool.Message;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import org.agrona.DirectBuffer;

/** One way from one wire to another: a queue of messages that arrive in order, each at its time. */
final class SimulatedLink implements Link {
    private static final long NEVER = Long.MAX_VALUE;

    final String from;
    private final String to;
    private final SimulatedWire origin;
    private final Simulation simulation;
    private SimulatedWire target;
    private Message first;
    private Message last;
    private long bytesUnderWay;
    private long freeNs;
    private boolean full;
    private boolean broken;
    private boolean closed;
    private boolean cut;

    SimulatedLink(SimulatedWire origin, String to) {
        this.origin = origin;
        this.simulation = origin.simulation();
        this.from = origin.process();
        this.to = to;
    }

    @Override
    public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
            int bodyLength) {
        simulation.operate();
        if (closed || broken || origin.isGone()) {
            return Wire.CLOSED;
        }
        if (target == null && !connect()) {
            return Wire.NOT_CONNECTED;
        }
        if (target.isClosed()) {
            // News of it cannot be faster than what it said before.
            return origin.awaits(target) ? Wire.BACK_PRESSURED : Wire.CLOSED;
        }
        int length = headerLength + bodyLength;
        Conditions conditions = simulation.conditions();
        if (bytesUnderWay > 0 && bytesUnderWay + length > conditions.windowBytes()
                || simulation.happens(conditions.backPressure())) {
            full = true;
            return Wire.BACK_PRESSURED;
        }
        Message message = simulation.pool().take(length);
        message.buffer.putBytes(0, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            message.buffer.putBytes(headerLength, body, bodyOffset, bodyLength);
        }
        send(message, conditions);
        return Wire.SENT;
    }

    private boolean connect() {
        SimulatedWire found = simulation.wireAt(to);
        if (found == null || simulation.isCut(from, found.process())) {
            return false;
        }
        target = found;
        target.inbound().add(this);
        return true;
    }

    private void send(Message message, Conditions conditions) {
        long now = simulation.nanoTime();
        freeNs = Math.max(freeNs, now) + message.length * 1_000_000_000L / conditions.bytesPerSecond();
        long arrival = freeNs + simulation.delay(conditions);
        message.arrivalNs = last == null ? arrival : Math.max(arrival, last.arrivalNs);
        if (last == null) {
            first = message;
        } else {
            last.next = message;
        }
        last = message;
        bytesUnderWay += message.length;
        message.copyDelayNs = simulation.happens(conditions.copies()) ? 1 + simulation.delay(conditions) : NEVER;
        if (simulation.happens(conditions.noise())) {
            target.addStray(simulation.pool().mangled(message, now + simulation.delay(conditions),
                    simulation.chance()));
        }
    }

    /** Returns whether messages are under way. */
    boolean isBusy() {
        return first != null;
    }

    /** Returns when the next message arrives. */
    long nextArrivalNs() {
        return first == null || cut ? NEVER : first.arrivalNs;
    }

    /** Takes the next message. */
    Message take() {
        Message message = first;
        first = message.next;
        if (first == null) {
            last = null;
        }
        message.next = null;
        if (message.copyDelayNs != NEVER) {
            target.addStray(simulation.pool().copyOf(message, simulation.nanoTime() + message.copyDelayNs));
        }
        bytesUnderWay -= message.length;
        if (full) {
            full = false;
            origin.wake();
        }
        return message;
    }

    /** Returns whether nothing will come on this link any more. */
    boolean isOver() {
        return first == null && (closed || broken || origin.isGone());
    }

    SimulatedWire origin() {
        return origin;
    }

    /** Holds up what is under way, or lets it go on. */
    void cut(boolean now) {
        if (cut && !now) {
            long late = simulation.nanoTime() + simulation.delay(simulation.conditions());
            for (Message m = first; m != null; m = m.next) {
                m.arrivalNs = Math.max(m.arrivalNs, late);
            }
        }
        cut = now;
    }

    /** Ends the link; the last {@code lost} share of what is under way never arrives. */
    void breakOff(double lost) {
        broken = true;
        long keep = (long) (bytesUnderWay * (1 - lost));
        Message kept = null;
        Message at = first;
        while (at != null && keep >= at.length) {
            keep -= at.length;
            kept = at;
            at = at.next;
        }
        while (at != null) {
            Message next = at.next;
            bytesUnderWay -= at.length;
            simulation.pool().give(at);
            at = next;
        }
        if (kept == null) {
            first = null;
        } else {
            kept.next = null;
        }
        last = kept;
    }

    @Override
    public void close() {
        closed = true;
    }
}
