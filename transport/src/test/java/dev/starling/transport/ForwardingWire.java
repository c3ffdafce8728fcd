package dev.starling.transport;

import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;

/** A wire that passes all calls that every wire answers on to another one; the rest are the defaults. */
abstract class ForwardingWire implements Wire {
    final Wire wire;

    ForwardingWire(Wire wire) {
        this.wire = wire;
    }

    @Override
    public String address() {
        return wire.address();
    }

    @Override
    public int maxMessageLength() {
        return wire.maxMessageLength();
    }

    @Override
    public Link open(String peer) {
        return wire.open(peer);
    }

    @Override
    public int poll(Inbox inbox, int limit) {
        return wire.poll(inbox, limit);
    }

    @Override
    public void idle(long idleNs) {
        wire.idle(idleNs);
    }

    @Override
    public void close() {
        wire.close();
    }
}
