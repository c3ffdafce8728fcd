package dev.starling.distributed;

import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.concurrent.atomic.LongAdder;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.NanoClock;

/** A wire that counts the bytes sent over it. */
public record CountingWire(Wire wire, LongAdder bytes) implements Wire {
    private record CountingLink(Link link, LongAdder bytes) implements Link {
        @Override
        public int offer(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
                int bodyLength) {
            int code = link.offer(header, headerOffset, headerLength, body, bodyOffset, bodyLength);
            if (code == Wire.SENT) {
                bytes.add(headerLength + bodyLength);
            }
            return code;
        }

        @Override
        public void close() {
            link.close();
        }
    }

    @Override
    public Link open(String address) {
        return new CountingLink(wire.open(address), bytes);
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
    public int poll(Inbox inbox, int limit) {
        return wire.poll(inbox, limit);
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
    public void close() {
        wire.close();
    }
}
