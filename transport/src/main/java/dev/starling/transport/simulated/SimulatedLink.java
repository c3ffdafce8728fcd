package dev.starling.transport.simulated;

import dev.starling.transport.simulated.MessagePool.Message;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.Objects;
import org.agrona.DirectBuffer;
import org.jspecify.annotations.Nullable;

/** A one-way link from one wire to another: a queue of messages that arrive in order, each at its time. */
final class SimulatedLink implements Link {
    private static final long NEVER = Long.MAX_VALUE;

    final String from;
    private final String to;
    private final SimulatedWire origin;
    private final Simulation simulation;
    private @Nullable SimulatedWire target;
    private @Nullable Message first;
    private @Nullable Message last;
    private long bytesInFlight;
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
    public int offer(DirectBuffer header, int headerOffset, int headerLength, @Nullable DirectBuffer body,
            int bodyOffset, int bodyLength) {
        simulation.operate();
        if (closed || broken || origin.isDown()) {
            return Wire.CLOSED;
        }
        SimulatedWire at = target != null ? target : connect();
        if (at == null) {
            return Wire.NOT_CONNECTED;
        }
        if (at.isClosed()) {
            // The close must not be visible before messages that the peer sent earlier.
            return origin.awaits(at) ? Wire.BACK_PRESSURED : Wire.CLOSED;
        }
        int length = headerLength + bodyLength;
        Conditions conditions = simulation.conditions();
        if (bytesInFlight > 0 && bytesInFlight + length > conditions.windowBytes()
                || simulation.happens(conditions.backPressure())) {
            full = true;
            return Wire.BACK_PRESSURED;
        }
        Message message = simulation.pool().acquire(length);
        message.buffer.putBytes(0, header, headerOffset, headerLength);
        if (bodyLength > 0) {
            message.buffer.putBytes(headerLength, body, bodyOffset, bodyLength);
        }
        send(at, message, conditions);
        return Wire.SENT;
    }

    /** Returns the wire at the address, or {@code null} if none can be reached there. */
    private @Nullable SimulatedWire connect() {
        SimulatedWire found = simulation.wireAt(to);
        if (found == null || simulation.isCut(from, found.process())) {
            return null;
        }
        target = found;
        found.inbound().add(this);
        return found;
    }

    private void send(SimulatedWire at, Message message, Conditions conditions) {
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
        bytesInFlight += message.length;
        if (first == message) {
            simulation.refresh(at);
        }
        message.copyDelayNs = simulation.happens(conditions.copies()) ? 1 + simulation.delay(conditions) : NEVER;
        if (simulation.happens(conditions.noise())) {
            at.addStray(simulation.pool().corrupted(message, now + simulation.delay(conditions),
                    simulation.randomness()));
        }
    }

    /** Returns whether messages are in flight. */
    boolean isBusy() {
        return first != null;
    }

    /** Returns when the next message arrives. */
    long nextArrivalNs() {
        return first == null || cut ? NEVER : first.arrivalNs;
    }

    /** Removes and returns the next message. */
    Message receive() {
        Message message = Objects.requireNonNull(first);
        first = message.next;
        if (first == null) {
            last = null;
        }
        message.next = null;
        if (message.copyDelayNs != NEVER) {
            Objects.requireNonNull(target).addStray(simulation.pool().copyOf(message,
                    simulation.nanoTime() + message.copyDelayNs));
        }
        bytesInFlight -= message.length;
        if (full) {
            full = false;
            origin.wake();
        }
        return message;
    }

    /** Returns whether nothing can arrive on this link any more. */
    boolean isOver() {
        return first == null && (closed || broken || origin.isDown());
    }

    SimulatedWire origin() {
        return origin;
    }

    /** Holds back messages in flight, or lets them continue. */
    void cut(boolean newCut) {
        if (cut && !newCut) {
            long late = simulation.nanoTime() + simulation.delay(simulation.conditions());
            for (Message m = first; m != null; m = m.next) {
                m.arrivalNs = Math.max(m.arrivalNs, late);
            }
        }
        cut = newCut;
    }

    /** Breaks the link; the last {@code lost} share of the bytes in flight never arrives. */
    void breakOff(double lost) {
        broken = true;
        long keep = (long) (bytesInFlight * (1 - lost));
        Message kept = null;
        Message at = first;
        while (at != null && keep >= at.length) {
            keep -= at.length;
            kept = at;
            at = at.next;
        }
        while (at != null) {
            Message next = at.next;
            bytesInFlight -= at.length;
            simulation.pool().release(at);
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
