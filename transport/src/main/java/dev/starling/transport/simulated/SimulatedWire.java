package dev.starling.transport.simulated;

import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.MessagePool.Message;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.agrona.concurrent.NanoClock;
import org.jspecify.annotations.Nullable;

/** A wire of a simulated process. */
final class SimulatedWire implements Wire {
    private static final int MAX_MESSAGE = 64 << 10;
    private static final int EMPTY_POLLS = 64;

    private final Simulation simulation;
    private final String process;
    private final String address;
    private final NanoClock clock;
    private final List<SimulatedLink> inbound = new ArrayList<>();
    private final List<Flow> waiting = new ArrayList<>(1);
    /** Copies and noise, ordered by arrival. */
    private @Nullable Message stray;
    private long lastWorkNs;
    private int emptyPolls;
    private boolean woken;
    private boolean closed;
    private boolean crashed;

    SimulatedWire(Simulation simulation, String process, String address, long skewNs) {
        this.simulation = simulation;
        this.process = process;
        this.address = address;
        clock = () -> simulation.nanoTime() + skewNs;
        lastWorkNs = simulation.nanoTime();
    }

    @Override
    public String address() {
        return address;
    }

    @Override
    public int maxMessageLength() {
        return MAX_MESSAGE;
    }

    @Override
    public Link open(String peer) {
        TransportException.require(!peer.isEmpty(), "an address has a name", "");
        return new SimulatedLink(this, peer);
    }

    @Override
    public int poll(Inbox inbox, int limit) {
        simulation.operate();
        simulation.checkEnded();
        int count = 0;
        while (count < limit && !closed) {
            Message message = next(simulation.nanoTime());
            if (message == null) {
                break;
            }
            count++;
            simulation.observe(this, message.length);
            inbox.onMessage(message.buffer, 0, message.length);
            simulation.pool().release(message);
        }
        if (count > 0) {
            simulation.refresh(this);
            lastWorkNs = simulation.nanoTime();
            emptyPolls = 0;
        } else if (++emptyPolls >= EMPTY_POLLS) {
            // A caller that polls in a loop without idling would keep all other processes from running.
            idle(0);
        }
        return count;
    }

    private @Nullable Message next(long now) {
        SimulatedLink best = null;
        long earliest = stray == null ? Long.MAX_VALUE : stray.arrivalNs;
        for (int i = inbound.size() - 1; i >= 0; i--) {
            SimulatedLink link = inbound.get(i);
            if (link.nextArrivalNs() < earliest) {
                earliest = link.nextArrivalNs();
                best = link;
            } else if (link.isOver()) {
                inbound.remove(i);
            }
        }
        if (earliest > now) {
            return null;
        }
        if (best != null) {
            return best.receive();
        }
        Message message = Objects.requireNonNull(stray);
        stray = message.next;
        message.next = null;
        return message;
    }

    /** Returns when the next message arrives, or now if a process that waits on this wire has been woken. */
    long nextArrivalNs() {
        if (woken) {
            return simulation.nanoTime();
        }
        long earliest = stray == null ? Long.MAX_VALUE : stray.arrivalNs;
        for (int i = 0; i < inbound.size(); i++) {
            earliest = Math.min(earliest, inbound.get(i).nextArrivalNs());
        }
        return earliest;
    }

    /** Returns whether a message from that wire to this one is in flight. */
    boolean awaits(SimulatedWire sender) {
        for (int i = 0; i < inbound.size(); i++) {
            if (inbound.get(i).origin() == sender && inbound.get(i).isBusy()) {
                return true;
            }
        }
        return false;
    }

    void addStray(Message message) {
        insertStray(message);
        simulation.refresh(this);
    }

    private void insertStray(Message message) {
        if (stray == null || stray.arrivalNs > message.arrivalNs) {
            message.next = stray;
            stray = message;
            return;
        }
        Message before = stray;
        while (before.next != null && before.next.arrivalNs <= message.arrivalNs) {
            before = before.next;
        }
        message.next = before.next;
        before.next = message;
    }

    /** Wakes the process that waits for room. */
    void wake() {
        woken = true;
        simulation.refresh(this);
    }

    @Override
    public NanoClock clock() {
        return clock;
    }

    @Override
    public void idle(long idleNs) {
        emptyPolls = 0;
        simulation.operate();
        simulation.idle(this, Math.max(idleNs, simulation.nanoTime() - lastWorkNs));
        woken = false;
        simulation.refresh(this);
    }

    @Override
    public boolean mapsMemory() {
        return false;
    }

    @Override
    public void close() {
        if (!closed) {
            closed = true;
            simulation.forget(this);
        }
    }

    void crash(boolean noticed) {
        crashed = true;
        closed |= noticed;
        simulation.forget(this);
    }

    Simulation simulation() {
        return simulation;
    }

    String process() {
        return process;
    }

    List<SimulatedLink> inbound() {
        return inbound;
    }

    /** Returns the flows that wait on this wire. */
    List<Flow> waiting() {
        return waiting;
    }

    boolean isClosed() {
        return closed;
    }

    boolean isDown() {
        return closed || crashed;
    }
}
