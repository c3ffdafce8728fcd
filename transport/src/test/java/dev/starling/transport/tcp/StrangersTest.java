package dev.starling.transport.tcp;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.drive;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.Wires;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What processes without the secret can do to a wire that has a peer. */
@Timeout(60)
class StrangersTest {
    private final TcpWire wire = open(30_000);
    private final TcpWire peer = open(30_000);
    private final List<SocketChannel> sockets = new ArrayList<>();
    private Link fromPeer;
    private int received;

    private static TcpWire open(int timeToProveMs) {
        return TcpWire.open(TcpSettings.of(TransportConfig.of("tcp", Secret.random())
                .option("timeToProve", Integer.toString(timeToProveMs)).wire()));
    }

    @BeforeEach
    void connect() {
        fromPeer = peer.open(wire.address());
        await(() -> offer(fromPeer, new byte[4]) == Wire.SENT, peer, wire);
        boolean[] arrived = new boolean[1];
        await(() -> {
            wire.poll((buffer, offset, length) -> {
                wire.onProof();
                arrived[0] = true;
            }, 16);
            return arrived[0] || wire.unproven() == 0;
        });
    }

    @AfterEach
    void close() throws IOException {
        for (SocketChannel socket : sockets) {
            socket.close();
        }
        peer.close();
        wire.close();
    }

    private void checkThePeer() {
        int before = received;
        await(() -> offer(fromPeer, new byte[4]) == Wire.SENT, peer);
        await(() -> {
            // The messages of strangers have other lengths.
            wire.poll((buffer, offset, length) -> received += length == Wires.HEADER + 4 ? 1 : 0, 16);
            return received > before;
        }, peer);
    }

    private SocketChannel stranger(byte[]... texts) throws IOException {
        return strangerFrom("127.0.0.1", texts);
    }

    private SocketChannel strangerFrom(String host, byte[]... texts) throws IOException {
        int colon = wire.address().indexOf(':');
        SocketChannel socket = SocketChannel.open();
        sockets.add(socket);
        socket.configureBlocking(false);
        socket.bind(new InetSocketAddress(host, 0));
        socket.connect(new InetSocketAddress(wire.address().substring(0, colon),
                Integer.parseInt(wire.address().substring(colon + 1))));
        await(() -> {
            try {
                return socket.finishConnect();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }, wire);
        for (byte[] text : texts) {
            socket.write(ByteBuffer.wrap(text));
        }
        return socket;
    }

    private static byte[] preamble() {
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[Unit.PREAMBLE]);
        Unit.putPreamble(buffer, 0, 4711, false);
        return buffer.byteArray();
    }

    private static byte[] rail(long ticket) {
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[Unit.PREAMBLE]);
        Unit.putRail(buffer, 0, ticket);
        return buffer.byteArray();
    }

    private static byte[] unit(int kind, int length, int bytes) {
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[Unit.MESSAGE_HEADER + bytes]);
        Unit.putMessageHeader(buffer, 0, length);
        buffer.putInt(0, kind);
        return buffer.byteArray();
    }

    /** Returns the bytes that the wire answers until it closes the connection. */
    private byte[] answerUntilClosed(SocketChannel socket) {
        ByteBuffer answer = ByteBuffer.allocate(Unit.REPLY + 2);
        await(() -> {
            try {
                return socket.read(answer) < 0;
            } catch (IOException e) {
                return true;
            }
        }, wire);
        byte[] bytes = new byte[answer.flip().remaining()];
        answer.get(bytes);
        return bytes;
    }

    @Test
    void areCutOffWhenTheySendSomethingElse() throws IOException {
        assertThat(answerUntilClosed(stranger("GET / HTTP/1.1\r\n\r\n".getBytes(StandardCharsets.US_ASCII)))).isEmpty();
        assertThat(answerUntilClosed(stranger(preamble(), unit(Unit.MESSAGE, Integer.MAX_VALUE, 0)))).hasSize(16);
        assertThat(answerUntilClosed(stranger(preamble(), unit(Unit.MESSAGE, -1, 0)))).hasSize(16);
        assertThat(answerUntilClosed(stranger(rail(4711)))).isEmpty();
        assertThat(answerUntilClosed(stranger(preamble(), unit(Unit.MESSAGE | 0x80, 8, 100)))).hasSize(16);
        assertThat(answerUntilClosed(stranger(preamble(), unit(Unit.MESSAGE, TcpWire.MAX_UNPROVEN_MESSAGE + 1, 0))))
                .hasSize(16);
        assertThat(answerUntilClosed(stranger(preamble(), unit(77, 0, 0)))).hasSize(16);
        SplittableRandom random = new SplittableRandom(3);
        for (int i = 0; i < 50; i++) {
            byte[] noise = new byte[16 + random.nextInt(2000)];
            random.nextBytes(noise);
            answerUntilClosed(i % 2 == 0 ? stranger(noise) : stranger(preamble(), noise));
        }
        assertThat(wire.unproven()).isZero();
        checkThePeer();
    }

    @Test
    void mayConnectByTheThousandWithoutHarm() throws IOException {
        List<SocketChannel> later = new ArrayList<>();
        for (int i = 0; i < 1_000; i++) {
            SocketChannel socket = switch (i % 4) {
                case 0 -> stranger();
                case 1 -> stranger(new byte[] {1, 2, 3});
                case 2 -> stranger(preamble());
                default -> stranger(preamble(), unit(Unit.MESSAGE, 1000, 10));
            };
            later.add(socket);
            if (i % 10 == 0) {
                wire.poll((buffer, offset, length) -> received++, 16);
                assertThat(wire.unproven()).isLessThanOrEqualTo(Gate.MAX_OF_ADDRESS);
            }
            if (later.size() > 600) {
                later.removeFirst().close();
            }
            if (i % 200 == 0) {
                checkThePeer();
            }
        }
        checkThePeer();
        assertThat(wire.unproven()).isLessThanOrEqualTo(Gate.MAX_OF_ADDRESS);
        // A process that comes now gets in.
        try (TcpWire late = open(30_000)) {
            Link link = late.open(wire.address());
            int before = received;
            await(() -> {
                offer(link, new byte[4]);
                wire.poll((buffer, offset, length) -> received++, 16);
                return received > before;
            }, late);
        }
    }

    @Test
    void ofOneAddressDoNotPushOutThoseOfAnother() throws IOException {
        SocketChannel elsewhere = strangerFrom("127.0.0.9", preamble());
        await(() -> wire.unproven() == 1, wire);
        SocketChannel first = stranger(preamble());
        awaitReply(first);
        for (int i = 0; i < Gate.MAX_OF_ADDRESS + 20; i++) {
            stranger(preamble());
        }
        await(() -> wire.unproven() == Gate.MAX_OF_ADDRESS + 1, wire);
        awaitReply(elsewhere);
        // The oldest of the crowded address was told that it may come again.
        assertThat(answerUntilClosed(first)).containsExactly(Unit.BUSY);
        checkThePeer();
    }

    @Test
    void ofManyAddressesPushOutTheOldest() throws IOException {
        SocketChannel oldest = strangerFrom("127.0.1.9", preamble());
        awaitReply(oldest);
        for (int i = 10; i < Gate.MAX_UNPROVEN + 9; i++) {
            strangerFrom("127.0." + (1 + i / 250) + '.' + i % 250, preamble());
        }
        await(() -> wire.unproven() == Gate.MAX_UNPROVEN, wire);
        // Their hash codes are below and above those of the others.
        for (String newcomer : List.of("127.0.1.1", "127.0.1.2", "127.0.0.3", "127.0.255.250", "127.200.0.1")) {
            awaitReply(strangerFrom(newcomer, preamble()));
            assertThat(wire.unproven()).isEqualTo(Gate.MAX_UNPROVEN);
        }
        assertThat(answerUntilClosed(oldest)).containsExactly(Unit.BUSY);
        checkThePeer();
    }

    @Test
    void doNotPushOutThoseThatSentASignedMessage() throws IOException {
        List<SocketChannel> signed = new ArrayList<>();
        for (int i = 0; i <= Gate.MAX_SIGNED; i++) {
            signed.add(stranger(preamble()));
            awaitReply(signed.getLast());
            signed.getLast().write(ByteBuffer.wrap(messages(1, 8)));
            awaitSignature();
        }
        assertThat(wire.unproven()).isEqualTo(Gate.MAX_SIGNED);
        assertThat(answerUntilClosed(signed.getFirst())).containsExactly(Unit.BUSY);
        for (int i = 0; i < Gate.MAX_OF_ADDRESS + 20; i++) {
            stranger(preamble());
        }
        await(() -> wire.unproven() == Gate.MAX_SIGNED + Gate.MAX_OF_ADDRESS, wire);
        for (SocketChannel each : signed.subList(1, signed.size())) {
            assertThat(each.read(ByteBuffer.allocate(1))).isZero();
        }
        checkThePeer();
    }

    @Test
    void mayTurnAwayOneThatWaitsForItsTurn() throws IOException {
        List<SocketChannel> signed = new ArrayList<>();
        for (int i = 0; i < Gate.MAX_SIGNED; i++) {
            signed.add(stranger(preamble()));
            awaitReply(signed.getLast());
            signed.getLast().write(ByteBuffer.wrap(messages(1, 8)));
            awaitSignature();
        }
        SocketChannel newcomer = stranger(preamble());
        awaitReply(newcomer);
        // Their messages wait, the newcomer's in front; its signature turns the other one away.
        for (SocketChannel each : List.of(newcomer, signed.getFirst())) {
            each.write(ByteBuffer.wrap(messages(1, 8)));
            long until = wire.nowNs() + 20_000_000;
            await(() -> wire.poll((buffer, offset, length) -> { }, 0) >= 0 && wire.nowNs() > until);
        }
        awaitSignature();
        assertThat(answerUntilClosed(signed.getFirst())).containsExactly(Unit.BUSY);
        assertThat(wire.unproven()).isEqualTo(Gate.MAX_SIGNED);
        checkThePeer();
    }

    /** Polls until a message has been delivered, which counts as signed. */
    private void awaitSignature() {
        int[] delivered = new int[1];
        await(() -> {
            wire.poll((buffer, offset, length) -> {
                delivered[0]++;
                wire.onSignature();
            }, 16);
            return delivered[0] > 0;
        });
    }

    @Test
    void areReadSeldomWhenTheirBytesCompleteNoMessage() throws Exception {
        List<SocketChannel> slow = new ArrayList<>();
        for (int i = 0; i < Gate.MAX_OF_ADDRESS - 1; i++) {
            slow.add(stranger(preamble(), unit(Unit.MESSAGE, TcpWire.MAX_UNPROVEN_MESSAGE, 0)));
            awaitReply(slow.getLast());
        }
        SocketChannel modest = stranger(preamble());
        awaitReply(modest);
        long[] delays = new long[21];
        for (int i = 0; i < delays.length; i++) {
            for (SocketChannel each : slow) {
                each.write(ByteBuffer.wrap(new byte[1]));
            }
            Thread.sleep(10); // Now the next poll reads them all.
            int[] delivered = new int[2];
            long begin = System.nanoTime();
            poll(delivered, 0);
            modest.write(ByteBuffer.wrap(messages(1, 8)));
            poll(delivered, 1);
            delays[i] = System.nanoTime() - begin;
        }
        Arrays.sort(delays);
        assertThat(Duration.ofNanos(delays[delays.length / 2])).isBetween(Duration.ofMillis(3), Duration.ofMillis(500));
        checkThePeer();
    }

    private static byte[] messages(int number, int length) {
        UnsafeBuffer buffer = new UnsafeBuffer(new byte[number * Unit.messageUnit(length)]);
        for (int i = 0; i < number; i++) {
            Unit.putMessageHeader(buffer, i * Unit.messageUnit(length), length);
        }
        return buffer.byteArray();
    }

    @Test
    void deliverInTurnAndNotWithoutLimit() throws IOException {
        List<SocketChannel> greedy = new ArrayList<>();
        for (int i = 0; i < 8; i++) {
            greedy.add(stranger(preamble()));
            awaitReply(greedy.getLast());
        }
        SocketChannel modest = stranger(preamble());
        awaitReply(modest);
        long begin = System.nanoTime();
        for (SocketChannel each : greedy) {
            each.write(ByteBuffer.wrap(messages(2_000, 8)));
        }
        int[] delivered = new int[2];
        poll(delivered, 300);
        modest.write(ByteBuffer.wrap(messages(1, 16)));
        int before = delivered[0];
        await(() -> {
            poll(delivered, 0);
            return delivered[1] > 0;
        });
        assertThat(delivered[0] - before).as("messages that went before").isLessThan(5 * greedy.size());
        poll(delivered, 600);
        assertThat(delivered[0] + delivered[1]).isLessThan(Gate.MESSAGES_AT_ONCE + 2
                + (int) ((System.nanoTime() - begin) * 1e-9 * Gate.MESSAGES_PER_SECOND));
        checkThePeer();
    }

    /** Polls at least once, and until so many short messages have been delivered; counts those and longer ones. */
    private void poll(int[] delivered, int atLeast) {
        await(() -> {
            wire.poll((buffer, offset, length) -> delivered[length == 8 ? 0 : 1]++, 64);
            return delivered[0] >= atLeast;
        });
    }

    private void awaitReply(SocketChannel socket) {
        ByteBuffer reply = ByteBuffer.allocate(Unit.REPLY);
        await(() -> {
            try {
                assertThat(socket.read(reply)).isNotNegative();
                return !reply.hasRemaining();
            } catch (IOException e) {
                throw new AssertionError(e);
            }
        }, wire);
    }

    @Test
    void areCutOffWhenTheyProveNothingInTime() throws IOException {
        try (TcpWire strict = open(1_000)) {
            Link link = wire.open(strict.address());
            long begin = System.nanoTime();
            await(() -> strict.unproven() == 1, strict, wire);
            await(() -> strict.unproven() == 0, strict);
            assertThat(Duration.ofNanos(System.nanoTime() - begin)).isBetween(Duration.ofMillis(900),
                    Duration.ofSeconds(15));
            // The wire that was turned away comes again by itself.
            boolean[] again = new boolean[1];
            await(() -> {
                offer(link, new byte[4]);
                strict.poll((buffer, offset, length) -> again[0] = true, 4);
                return again[0];
            }, wire);
        }
    }

    /** The one that connected first signs last. */
    @Test
    void areCutOffInTimeInWhicheverOrderTheySign() throws IOException {
        try (TcpWire strict = open(1_000)) {
            InetSocketAddress address = new InetSocketAddress("127.0.0.1",
                    Integer.parseInt(strict.address().substring(strict.address().lastIndexOf(':') + 1)));
            long pause = TimeUnit.MILLISECONDS.toNanos(300);
            int[] signed = new int[1];
            Inbox signing = (buffer, offset, length) -> {
                strict.onSignature();
                signed[0]++;
            };
            try (SocketChannel first = SocketChannel.open(address)) {
                await(() -> strict.poll(signing, 4) >= 0 && strict.unproven() == 1);
                long second = strict.nowNs() + pause;
                await(() -> strict.poll(signing, 4) >= 0 && strict.nowNs() > second);
                try (SocketChannel later = SocketChannel.open(address)) {
                    for (SocketChannel each : List.of(later, first)) {
                        each.write(ByteBuffer.wrap(preamble()));
                        each.write(ByteBuffer.wrap(messages(1, 8)));
                        int before = signed[0];
                        await(() -> strict.poll(signing, 4) >= 0 && signed[0] > before);
                    }
                    assertThat(strict.unproven()).isEqualTo(2);
                    await(() -> strict.poll(signing, 4) >= 0 && strict.unproven() == 1);
                    ByteBuffer answer = ByteBuffer.allocate(Unit.REPLY + 2);
                    while (first.read(answer) >= 0) {
                        assertThat(answer.hasRemaining()).isTrue();
                    }
                    assertThat(answer.flip().remaining()).isEqualTo(Unit.REPLY + 1);
                }
            }
        }
    }

    @Test
    void endALinkWhenTheySendWhatIsNotOneTicket() throws IOException {
        UnsafeBuffer tickets = new UnsafeBuffer(new byte[2 * Unit.TICKET]);
        Unit.putTicket(tickets, 0, 1);
        Unit.putTicket(tickets, Unit.TICKET, 2);
        UnsafeBuffer reply = new UnsafeBuffer(new byte[Unit.REPLY]);
        Unit.putReply(reply, 0, 4711);
        for (byte[] text : List.of(new byte[1000], tickets.byteArray())) {
            try (var server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
                Link link = wire.open("127.0.0.1:" + server.getLocalPort());
                drive(wire);
                try (var socket = server.accept()) {
                    socket.getOutputStream().write(reply.byteArray());
                    await(() -> offer(link, new byte[4]) == Wire.SENT, wire);
                    socket.getOutputStream().write(text);
                    await(() -> offer(link, new byte[4]) == Wire.CLOSED, wire);
                }
                link.close();
            }
        }
        checkThePeer();
    }

    @Test
    void cannotMakeALinkOfAProcessThatAnswersWrongly() throws IOException {
        try (var server = new ServerSocket(0, 1, InetAddress.getByName("127.0.0.1"))) {
            Link link = wire.open("127.0.0.1:" + server.getLocalPort());
            drive(wire);
            try (var socket = server.accept()) {
                socket.getOutputStream().write(new byte[64]);
                await(() -> link.obstacle().contains("something else listens there"), wire);
                assertThat(offer(link, new byte[4])).isEqualTo(Wire.NOT_CONNECTED);
            }
            link.close();
        }
    }
}
