package dev.starling.transport.contract;

import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;

/** A wire with an attacker that records everything that arrives and injects messages of its own before it. */
final class Tap implements Wire {
    final List<byte[]> recorded = new ArrayList<>();
    int linksOpen;
    int linksOpened;
    int maxLinksOpen;
    int signatures;

    private final Wire wire;
    private final Disturbance disturbance;

    Tap(Wire wire, Disturbance disturbance) {
        this.wire = wire;
        this.disturbance = disturbance;
    }

    /** Injects messages before a message is delivered. */
    @FunctionalInterface
    interface Disturbance {
        void before(byte[] message, Consumer<byte[]> inject);
    }

    @Override
    public int poll(Inbox inbox, int limit) {
        return wire.poll((buffer, offset, length) -> {
            byte[] message = new byte[length];
            buffer.getBytes(offset, message);
            recorded.add(message);
            disturbance.before(message, injected -> inbox.onMessage(new UnsafeBuffer(injected), 0, injected.length));
            inbox.onMessage(buffer, offset, length);
        }, limit);
    }

    @Override
    public Link open(String peer) {
        Link link = wire.open(peer);
        linksOpened++;
        maxLinksOpen = Math.max(maxLinksOpen, ++linksOpen);
        return new Link() {
            @Override
            public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
                    int bodyLength) {
                return link.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
            }

            @Override
            public void close() {
                linksOpen--;
                link.close();
            }
        };
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
    public int bulkMessageLength() {
        return wire.bulkMessageLength();
    }

    @Override
    public boolean opensImmediately(String peer) {
        return wire.opensImmediately(peer);
    }

    @Override
    public boolean leavesHost(String peer) {
        return wire.leavesHost(peer);
    }

    @Override
    public void onProof() {
        wire.onProof();
    }

    @Override
    public void onSignature() {
        signatures++;
        wire.onSignature();
    }

    @Override
    public NanoClock clock() {
        return wire.clock();
    }

    @Override
    public void idle(long idleNs) {
        wire.idle(idleNs);
    }

    @Override
    public boolean mapsMemory() {
        return wire.mapsMemory();
    }

    @Override
    public void close() {
        wire.close();
    }
}
