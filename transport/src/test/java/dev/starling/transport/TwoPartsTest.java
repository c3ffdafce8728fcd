package dev.starling.transport;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.util.ArrayDeque;
import java.util.Queue;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

/** What a transport does with frames whose header and body arrive apart, as any process may send them. */
class TwoPartsTest {
    /** A wire that delivers frames in two parts. */
    private static final class Parts implements Wire {
        private final Queue<byte[][]> arriving = new ArrayDeque<>();

        void add(byte[] frame, int headLength) {
            byte[][] parts = {new byte[headLength], new byte[frame.length - headLength]};
            System.arraycopy(frame, 0, parts[0], 0, headLength);
            System.arraycopy(frame, headLength, parts[1], 0, parts[1].length);
            arriving.add(parts);
        }

        @Override
        public int poll(Inbox inbox, int limit) {
            byte[][] next = arriving.poll();
            if (next == null) {
                return 0;
            }
            inbox.onParts(new UnsafeBuffer(next[0]), 0, next[0].length, new UnsafeBuffer(next[1]), 0, next[1].length);
            return 1;
        }

        @Override
        public String address() {
            return "here";
        }

        @Override
        public int maxMessageLength() {
            return 1 << 16;
        }

        @Override
        public Link open(String address) {
            throw new AssertionError("no link is opened for a stranger");
        }

        @Override
        public void idle(long idleNs) { }

        @Override
        public void close() { }
    }

    @Test
    void areRefusedUnlessTheyAreAPutOfAnOpenSession() {
        Secret secret = Secret.random();
        Parts wire = new Parts();
        try (Transport transport = Transport.over(wire, TransportConfig.of("local", secret))) {
            wire.add(FrameForge.hello(secret, 7, "there:1"), Frame.HEADER);
            wire.add(FrameForge.hello(secret, 7, "there:1"), Frame.PUT_HEADER);
            for (byte type = 0; type < 20; type++) {
                wire.add(FrameForge.frame(type, 1, 1, 0, new byte[80]), Frame.HEADER);
                if (type != Frame.PUT) {
                    wire.add(FrameForge.frame(type, 1, 1, 0, new byte[80]), Frame.PUT_HEADER);
                }
            }
            long frames = wire.arriving.size();
            while (!wire.arriving.isEmpty()) {
                transport.doWork();
            }
            assertThat(transport.counters().refusedFrames()).isEqualTo(frames);
            wire.add(FrameForge.frame(Frame.PUT, 1, 1, 0, new byte[80]), Frame.PUT_HEADER);
            transport.doWork();
            assertThat(transport.counters().refusedFrames()).isEqualTo(frames);
            assertThat(transport.counters().refusedSessions()).isEqualTo(1);
        }
    }
}
