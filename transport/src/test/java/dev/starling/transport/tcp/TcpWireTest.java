package dev.starling.transport.tcp;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.Wires;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

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
        for (String value : List.of("much", "k", "")) {
            assertThatThrownBy(() -> open(c -> c.option("sendBuffer", value))).isInstanceOf(TransportException.class)
                    .hasMessageContaining("sendBuffer must be a number").hasMessageContaining("'" + value + "'");
        }
    }

    @Test
    void refusesSettingsWithWhichNoPeerCouldConnect() {
        for (String option : List.of("connections", "timeToProve")) {
            assertThatThrownBy(() -> open(c -> c.option(option, "0"))).isInstanceOf(TransportException.class)
                    .hasMessageContaining(option + " >= 1 must hold, got 0");
        }
    }

    @Test
    void carriesMessagesOverIpv6() {
        try (Wire from = open(c -> c.at("[::1]", 0)); Wire to = open(c -> c.at("::1", 0))) {
            assertThat(to.address()).startsWith("[::1]:");
            assertThat(to.opensImmediately(from.address())).isTrue();
            proven(from, to);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void sendsInPlaceThroughSmallSocketBuffers(int connections) {
        UnaryOperator<TransportConfig> small = c -> c.option("sendBuffer", "4k").option("receiveBuffer", "4k")
                .option("connections", Integer.toString(connections));
        try (Arena arena = Arena.ofShared(); TcpWire from = open(small); TcpWire to = open(small)) {
            int max = from.maxMessageLength() - Wires.HEADER;
            int[] lengths = {1, 8, 100, 16 << 10, 40_003, 70_001, max - 1, max};
            MemorySegment source = arena.allocate(2L * max);
            SplittableRandom random = new SplittableRandom(1);
            for (long i = 0; i < source.byteSize(); i++) {
                source.set(ValueLayout.JAVA_BYTE, i, (byte) random.nextInt());
            }
            Link link = proven(from, to);
            await(() -> {
                from.poll((buffer, offset, length) -> { }, 16);
                return to.proven() == connections;
            }, to);
            int count = 60;
            int[] sent = new int[1];
            int[] received = new int[1];
            int[] released = new int[1];
            UnsafeBuffer header = new UnsafeBuffer(new byte[Wires.HEADER]);
            UnsafeBuffer body = new UnsafeBuffer(0, 0);
            await(() -> {
                while (sent[0] < count) {
                    int index = sent[0];
                    int length = lengths[index % lengths.length];
                    header.putLong(0, index);
                    body.wrap(source.address() + index, length);
                    int code = index % 3 == 2 ? link.offer(header, 0, Wires.HEADER, body, 0, length)
                            : link.offerInPlace(header, 0, Wires.HEADER, body, 0, length, () -> released[0]++);
                    if (code != Wire.SENT) {
                        assertThat(code).isEqualTo(Wire.BACK_PRESSURED);
                        break;
                    }
                    sent[0]++;
                }
                to.poll((buffer, offset, length) -> {
                    int index = received[0]++;
                    assertThat(buffer.getLong(offset)).isEqualTo(index);
                    assertThat(length - Wires.HEADER).isEqualTo(lengths[index % lengths.length]);
                    MemorySegment came = MemorySegment.ofAddress(buffer.addressOffset() + offset + Wires.HEADER)
                            .reinterpret(length - Wires.HEADER);
                    assertThat(came.mismatch(source.asSlice(index, length - Wires.HEADER))).isEqualTo(-1);
                }, 16);
                return received[0] == count;
            }, from);
            assertThat(released[0]).isEqualTo(count - count / 3);
        }
    }

    @Test
    void releasesTheMemoryOfALinkThatEnds() {
        try (Arena arena = Arena.ofShared(); TcpWire from = open(); TcpWire to = open()) {
            Link link = proven(from, to);
            int length = from.maxMessageLength() - Wires.HEADER;
            UnsafeBuffer body = new UnsafeBuffer(arena.allocate(length).address(), length);
            int[] pending = new int[1];
            UnsafeBuffer header = new UnsafeBuffer(new byte[Wires.HEADER]);
            int code;
            do {
                code = link.offerInPlace(header, 0, Wires.HEADER, body, 0, length, () -> pending[0]--);
                pending[0] += code == Wire.SENT ? 1 : 0;
            } while (code == Wire.SENT);
            assertThat(code).isEqualTo(Wire.BACK_PRESSURED);
            assertThat(pending[0]).isPositive();
            to.close();
            await(() -> offer(link, new byte[4]) == Wire.CLOSED, from);
            assertThat(pending[0]).isZero();
        }
    }

    @Test
    void sleepsWhileAnInterruptedCallerClosesIt() {
        UnaryOperator<TransportConfig> small = c -> c.option("sendBuffer", "4k").option("receiveBuffer", "4k");
        TcpWire from = open(small);
        try (TcpWire to = open(small)) {
            Link link = proven(from, to);
            while (offer(link, new byte[10_000]) == Wire.SENT) {
                from.poll((buffer, offset, length) -> { }, 16);
            }
            ThreadMXBean threads = ManagementFactory.getThreadMXBean();
            Thread.currentThread().interrupt();
            long before = threads.getCurrentThreadCpuTime();
            from.close(); // As the peer reads nothing, this takes as long as it may.
            long used = threads.getCurrentThreadCpuTime() - before;
            assertThat(Thread.interrupted()).as("still interrupted").isTrue();
            assertThat(used).as("ns of processor time").isLessThan(TimeUnit.MILLISECONDS.toNanos(200));
        } finally {
            Thread.interrupted();
            from.close();
        }
    }

    @Test
    void aLinkEndsWithAnyOfItsConnections() {
        try (TcpWire from = open(c -> c.option("connections", "2")); TcpWire to = open()) {
            Link link = proven(from, to);
            await(() -> {
                from.poll((buffer, offset, length) -> { }, 16);
                return to.proven() == 2;
            }, to);
            to.close();
            await(() -> offer(link, new byte[4]) == Wire.CLOSED, from);
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

    /** Uses addresses of IPv6 in a process that has none. */
    static final class Ipv4Program {
        private Ipv4Program() { }

        public static void main(String[] args) {
            try (TcpWire wire = open()) {
                Link link = wire.open("[::1]:80");
                wire.poll((buffer, offset, length) -> { }, 16);
                System.out.println(offer(link, new byte[4]) == Wire.NOT_CONNECTED ? "not connected" : "connected");
                open(c -> c.at("::1", 0)).close();
            } catch (TransportException e) {
                System.out.println(e.problem());
            }
        }
    }

    @Test
    void endsNoProcessBecauseAnAddressIsOfAFamilyThatItLacks() throws Exception {
        Process process = new ProcessBuilder(ProcessHandle.current().info().command().orElseThrow(), "--add-exports",
                "java.base/jdk.internal.misc=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow",
                "--enable-native-access=ALL-UNNAMED", "-Xmx64m", "-XX:+UseSerialGC", "-Djava.net.preferIPv4Stack=true",
                "-cp", System.getProperty("java.class.path"), Ipv4Program.class.getName())
                .redirectError(ProcessBuilder.Redirect.INHERIT).start();
        assertThat(process.inputReader().lines().toList()).containsExactly("not connected", "UNAVAILABLE");
        assertThat(process.waitFor()).isZero();
    }

    @Test
    void givesRoomToAllConnectionsInTurn() {
        try (TcpWire to = open(); TcpWire from = open()) {
            List<Link> links = List.of(proven(from, to), proven(from, to), proven(from, to));
            for (int i = 0; i < 20; i++) {
                for (int link = 0; link < links.size(); link++) {
                    assertThat(offer(links.get(link), new byte[link])).isEqualTo(Wire.SENT);
                }
            }
            for (int i = 0; i < 100; i++) {
                to.poll((buffer, offset, length) -> { }, 0); // Receives what is delivered below.
            }
            int[] delivered = new int[links.size()];
            for (int i = 0; i < 12; i++) {
                to.poll((buffer, offset, length) -> delivered[length - Wires.HEADER]++, 1);
            }
            assertThat(delivered).doesNotContain(0);
        }
    }

    /** Sends a message that contains its number; the first has no other. */
    private static void send(SocketChannel to, long number) throws IOException {
        int head = Unit.MESSAGE_HEADER + (number == 0 ? 0 : Unit.NUMBER);
        UnsafeBuffer unit = new UnsafeBuffer(new byte[head + Long.BYTES]);
        Unit.putMessageHeader(unit, 0, Long.BYTES);
        if (number > 0) {
            Unit.putNumber(unit, 0, number);
        }
        unit.putLong(head, number);
        to.write(ByteBuffer.wrap(unit.byteArray()));
    }

    @Test
    void deliversWhatFollowsAMessageOfWhichTheInboxThrewAnException() throws IOException {
        List<Long> numbers = new ArrayList<>();
        Inbox inbox = (buffer, offset, length) -> {
            numbers.add(buffer.getLong(offset));
            if (numbers.size() == 1) {
                throw new IllegalStateException("the first");
            }
        };
        try (TcpWire to = open();
                SocketChannel from = SocketChannel.open(new InetSocketAddress("127.0.0.1", port(to)))) {
            UnsafeBuffer preamble = new UnsafeBuffer(new byte[Unit.PREAMBLE]);
            Unit.putPreamble(preamble, 0, 4711, false);
            from.write(ByteBuffer.wrap(preamble.byteArray()));
            send(from, 0);
            await(() -> to.proven() == 1, to);
            send(from, 1);
            send(from, 2);
            assertThatThrownBy(() -> await(() -> to.poll(inbox, 16) < 0)).isInstanceOf(IllegalStateException.class);
            await(() -> to.poll(inbox, 16) >= 0 && numbers.size() == 2);
            assertThat(numbers).containsExactly(1L, 2L);
        }
    }

    @Test
    void sleepsWhileAMessageOfAnotherConnectionIsMissing() throws IOException {
        List<Long> numbers = new ArrayList<>();
        Inbox inbox = (buffer, offset, length) -> numbers.add(buffer.getLong(offset));
        try (TcpWire to = open()) {
            InetSocketAddress address = new InetSocketAddress("127.0.0.1", port(to));
            try (SocketChannel first = SocketChannel.open(address);
                    SocketChannel second = SocketChannel.open(address)) {
                UnsafeBuffer preamble = new UnsafeBuffer(new byte[Unit.PREAMBLE]);
                Unit.putPreamble(preamble, 0, 4711, true);
                first.write(ByteBuffer.wrap(preamble.byteArray()));
                send(first, 0);
                await(() -> to.proven() == 1, to);
                ByteBuffer answer = ByteBuffer.allocate(Unit.REPLY + Unit.TICKET);
                while (answer.hasRemaining()) {
                    assertThat(first.read(answer)).isPositive();
                }
                Unit.putRail(preamble, 0, Unit.ticket(new UnsafeBuffer(answer.array()), Unit.REPLY));
                second.write(ByteBuffer.wrap(preamble.byteArray()));
                await(() -> to.proven() == 2, to);
                send(second, 2);
                to.poll(inbox, 16);
                send(second, 3);
                long begin = System.nanoTime();
                for (int i = 0; i < 20; i++) {
                    to.poll(inbox, 16);
                    to.idle(TimeUnit.SECONDS.toNanos(1));
                }
                assertThat(System.nanoTime() - begin).as("time").isGreaterThan(TimeUnit.MILLISECONDS.toNanos(10));
                assertThat(numbers).isEmpty();
                send(first, 1);
                await(() -> to.poll(inbox, 16) >= 0 && numbers.size() == 3);
                send(second, 4);
                await(() -> to.poll(inbox, 16) >= 0 && numbers.size() == 4);
                assertThat(numbers).containsExactly(1L, 2L, 3L, 4L);
            }
        }
    }
}
