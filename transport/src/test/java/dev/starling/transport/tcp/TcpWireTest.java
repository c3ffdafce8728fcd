package dev.starling.transport.tcp;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.drive;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.function.UnaryOperator;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class TcpWireTest {
    private static TcpWire open() {
        return open(c -> c);
    }

    private static TcpWire open(UnaryOperator<TransportConfig> change) {
        return TcpWire.open(TcpSettings.of(change.apply(TransportConfig.of("tcp", Secret.random())).wire()));
    }

    private static int port(Wire wire) {
        return Integer.parseInt(wire.address().substring(wire.address().lastIndexOf(':') + 1));
    }

    private static boolean isReachable(String host, int port) {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(host, port), 1000);
            return true;
        } catch (IOException e) {
            return false;
        }
    }

    /** Opens a link and sends a message that counts as a proof. */
    private static Link proven(Wire from, Wire to) {
        Link link = from.open(to.address());
        boolean[] arrived = new boolean[1];
        boolean[] sent = new boolean[1];
        await(() -> {
            sent[0] = sent[0] || offer(link, new byte[4]) == Wire.SENT;
            to.poll((buffer, offset, length) -> {
                to.onProof();
                arrived[0] = true;
            }, 16);
            return arrived[0];
        }, from);
        return link;
    }

    @Test
    void listensAtTheNamedAddressAndNowhereElse() {
        try (Wire wire = open()) {
            assertThat(isReachable("127.0.0.1", port(wire))).isTrue();
            assertThat(isReachable("127.0.0.2", port(wire))).isFalse();
        }
        try (Wire wire = open(c -> c.option("bind", "127.0.0.2"))) {
            assertThat(wire.address()).startsWith("127.0.0.1:");
            assertThat(isReachable("127.0.0.1", port(wire))).isFalse();
            assertThat(isReachable("127.0.0.2", port(wire))).isTrue();
        }
    }

    @Test
    void refusesToAdvertiseAnAddressThatIsNone() {
        for (String host : List.of("0.0.0.0", "::")) {
            assertThatThrownBy(() -> open(c -> c.at(host, 0))).isInstanceOf(TransportException.class)
                    .hasMessageContaining(host).hasMessageContaining("bind");
        }
        assertThatThrownBy(() -> open(c -> c.option("colour", "red"))).isInstanceOf(TransportException.class)
                .hasMessageContaining("colour").hasMessageContaining("sendBuffer");
        assertThatThrownBy(() -> open(c -> c.option("sendBuffer", "much"))).isInstanceOf(TransportException.class)
                .hasMessageContaining("much");
    }

    @Test
    void carriesMessagesOverIpv6() {
        try (Wire from = open(c -> c.at("[::1]", 0)); Wire to = open(c -> c.at("::1", 0))) {
            assertThat(to.address()).startsWith("[::1]:");
            assertThat(to.opensImmediately(from.address())).isTrue();
            proven(from, to);
        }
    }

    @Test
    void writesAndSendsThroughSmallSocketBuffers() {
        UnaryOperator<TransportConfig> small = c -> c.option("sendBuffer", "4k").option("receiveBuffer", "4k");
        try (Arena arena = Arena.ofShared(); TcpWire from = open(small); TcpWire to = open(small)) {
            long bytes = 3_000_001;
            MemorySegment source = arena.allocate(bytes + 16);
            SplittableRandom random = new SplittableRandom(1);
            for (long i = 0; i < bytes; i++) {
                source.set(ValueLayout.JAVA_BYTE, i, (byte) random.nextInt());
            }
            Link link = proven(from, to);
            for (boolean registered : new boolean[] {true, false}) {
                RemoteWrites.Registration sources = registered ? from.register(source) : null;
                MemorySegment memory = arena.allocate(bytes);
                RemoteWrites.Target target = from.attach(link, to.register(memory).key());
                List<Long> order = new ArrayList<>();
                UnsafeBuffer message = new UnsafeBuffer(new byte[12]);
                long[] lengths = {0, 1, 8, 100, 16 << 10, 40_003, 70_000, bytes - 200_000};
                long[] sent = new long[2];
                List<Long> completed = new ArrayList<>();
                await(() -> {
                    while (sent[0] < lengths.length) {
                        int index = (int) sent[0];
                        message.putLong(0, sent[1] + lengths[index]);
                        int code = target.putAndSend(sent[1], source.asSlice(sent[1], lengths[index]),
                                (tag, written) -> completed.add(written ? tag : -1), index, message, 0, 12);
                        if (code != Wire.SENT) {
                            assertThat(code).isEqualTo(Wire.BACK_PRESSURED);
                            break;
                        }
                        sent[1] += lengths[index];
                        sent[0]++;
                    }
                    to.poll((buffer, offset, length) -> {
                        assertThat(length).isEqualTo(12);
                        long end = buffer.getLong(offset);
                        assertThat(MemorySegment.mismatch(source, 0, end, memory, 0, end)).isEqualTo(-1);
                        order.add(end);
                    }, 16);
                    return order.size() == lengths.length && completed.size() == lengths.length;
                }, from);
                assertThat(order).isSorted();
                assertThat(completed).containsExactly(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L);
                if (sources != null) {
                    sources.close();
                }
            }
        }
    }

    @Test
    void breaksALinkThatWritesWithAForgedKey() {
        try (Arena arena = Arena.ofShared(); TcpWire from = open(); TcpWire to = open()) {
            MemorySegment memory = arena.allocate(64);
            MemorySegment source = arena.allocate(64).fill((byte) 1);
            RegistrationKey key = RegistrationKey.decode(to.register(memory).key());
            Link honest = proven(from, to);
            for (RegistrationKey forged : List.of(new RegistrationKey(key.number(), key.token() + 1, 64),
                    new RegistrationKey(key.number() + 1, key.token(), 64),
                    new RegistrationKey(key.number(), key.token(), 128))) {
                Link link = proven(from, to);
                RemoteWrites.Target target = from.attach(link, forged.encode());
                target.put(forged.length() - 64, source, (tag, written) -> { }, 0);
                await(() -> offer(link, new byte[4]) == Wire.CLOSED, from, to);
            }
            assertThat(memory.mismatch(arena.allocate(64))).isEqualTo(-1);
            assertThat(offer(honest, new byte[4])).isEqualTo(Wire.SENT);
            assertThatThrownBy(() -> from.attach(honest, new byte[7])).isInstanceOf(TransportException.class);
        }
    }

    @Test
    void dropsWritesIntoMemoryThatHasBeenClosed() {
        try (Arena arena = Arena.ofShared(); TcpWire from = open(); TcpWire to = open()) {
            MemorySegment memory = arena.allocate(100_000);
            MemorySegment source = arena.allocate(100_000).fill((byte) 1);
            RemoteWrites.Registration registration = to.register(memory);
            Link link = proven(from, to);
            RemoteWrites.Target target = from.attach(link, registration.key());
            registration.close();
            boolean[] notified = new boolean[1];
            assertThat(target.putAndSend(0, source, (tag, written) -> { }, 0, new UnsafeBuffer(new byte[5]), 0, 5))
                    .isEqualTo(Wire.SENT);
            await(() -> {
                to.poll((buffer, offset, length) -> notified[0] = length == 5, 16);
                return notified[0];
            }, from);
            assertThat(memory.mismatch(arena.allocate(100_000))).isEqualTo(-1);
        }
    }

    @Test
    void endsTheConnectionOfAnInterceptorThatFails() {
        try (Arena arena = Arena.ofShared(); TcpWire from = open(); TcpWire to = open()) {
            RemoteWrites.Registration registration = to.register(arena.allocate(1000));
            registration.onWrite((offset, address, bytes) -> {
                throw new IllegalStateException("the interceptor");
            });
            Link link = proven(from, to);
            from.attach(link, registration.key()).put(0, arena.allocate(1000), (tag, written) -> { }, 0);
            assertThatThrownBy(() -> await(() -> drive(from) < 0, to)).hasMessage("the interceptor");
            await(() -> offer(link, new byte[4]) == Wire.CLOSED, from, to);
        }
    }

    @Test
    void deliversThePeersLastMessagesBeforeItReportsThatThePeerIsGone() {
        try (TcpWire here = open()) {
            TcpWire there = open();
            Link out = proven(here, there);
            Link back = proven(there, here);
            int count = 200;
            for (int i = 0; i < count; i++) {
                assertThat(offer(back, new byte[100])).isEqualTo(Wire.SENT);
            }
            there.close();
            int[] received = new int[1];
            await(() -> {
                int code = offer(out, new byte[4]);
                here.poll((buffer, offset, length) -> received[0]++, 3);
                assertThat(code == Wire.CLOSED).as("after %d messages", received[0]).isIn(false, received[0] >= count);
                return code == Wire.CLOSED;
            });
            assertThat(received[0]).isEqualTo(count);
        }
    }
}
