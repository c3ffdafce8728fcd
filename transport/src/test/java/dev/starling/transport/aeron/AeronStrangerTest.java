package dev.starling.transport.aeron;

import static dev.starling.transport.spi.Wires.await;
import static dev.starling.transport.spi.Wires.drive;
import static dev.starling.transport.spi.Wires.offer;
import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import io.aeron.ExclusivePublication;
import io.aeron.driver.status.SystemCounterDescriptor;
import io.aeron.logbuffer.BufferClaim;
import io.aeron.logbuffer.FrameDescriptor;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.DatagramChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What a process without the secret can do with datagrams that announce senders. */
@Timeout(60)
class AeronStrangerTest {
    private static final int SETUP_BYTES = 40;
    private static final short SETUP = 5;
    private static final short DATA = 1;
    private static final short NAK = 2;
    private static final short STATUS = 3;
    private static final short ROUND_TRIP = 6;
    private static final int HEADER = 32;
    private static final byte WHOLE = (byte) 0xc0;
    private static final byte MIDDLE = 0;
    private static final int TERM = 256 << 10;
    private static final int LOG_BYTES = 3 * TERM + 4096;

    @TempDir
    private Path directory;

    private Wire open(int threads) {
        return new AeronWireProvider().open(TransportConfig.of("aeron", Secret.random()).directory(directory)
                .option("ipc", "false").option("term", Integer.toString(TERM)).option("mtu", "1408")
                .option("threads", Integer.toString(threads)).wire());
    }

    /** Returns the datagram that announces a sender to a wire. */
    private static DatagramPacket announcement(Wire to, int session, int term) {
        return announcement(to, session, AeronWire.networkStream(), term);
    }

    private static DatagramPacket announcement(Wire to, int session, int stream, int term) {
        return packet(to, announcement(session, stream, term));
    }

    private static ByteBuffer announcement(int session, int stream, int term) {
        return ByteBuffer.allocate(SETUP_BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(SETUP_BYTES)
                .putShort((short) 0).putShort(SETUP).putInt(0).putInt(session).putInt(stream)
                .putInt(0).putInt(0).putInt(term).putInt(1408).putInt(0);
    }

    /** Returns a datagram with a message of a sender, at an offset in its first term. */
    private static DatagramPacket data(Wire to, int session, int offset, int length) {
        return packet(to, frame((HEADER + length + 31) & -32, HEADER + length, WHOLE, offset, session));
    }

    /** Returns a frame of the first term with a body of zeros. */
    private static ByteBuffer frame(int bytes, int length, byte flags, int offset, int session) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(length).put((byte) 0).put(flags)
                .putShort(DATA).putInt(offset).putInt(session).putInt(AeronWire.networkStream()).putInt(0).rewind();
    }

    private static DatagramPacket packet(Wire to, ByteBuffer frame) {
        String address = to.address();
        int colon = address.lastIndexOf(':');
        return new DatagramPacket(frame.array(), frame.capacity(), new InetSocketAddress(address.substring(0, colon),
                Integer.parseInt(address.substring(colon + 1))));
    }

    /** Returns the sizes of the files that the senders to all wires have caused. */
    private List<Long> images() {
        try (Stream<Path> all = Files.walk(directory)) {
            return all.filter(file -> file.toString().contains("images") && Files.isRegularFile(file))
                    .map(file -> file.toFile().length()).toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void allocatesNoMoreThanALinkOfTheWireNeeds(int threads) throws IOException {
        try (Wire wire = open(threads); Wire honest = open(0); DatagramSocket stranger = new DatagramSocket()) {
            stranger.send(announcement(wire, 4711, 64 << 20));
            stranger.send(announcement(wire, 4712, TERM));
            // A sender that was admitted does not announce longer terms later.
            stranger.send(announcement(wire, 4713, AeronWire.networkStream() + 1, TERM));
            stranger.send(announcement(wire, 4713, 64 << 20));
            // The last of all arrives last.
            Link link = honest.open(wire.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, honest, wire);
            await(() -> images().size() >= 2, honest, wire);
            assertThat(images()).as("one of the stranger, one of the member").hasSize(2)
                    .allSatisfy(bytes -> assertThat(bytes).isBetween(1L, (long) LOG_BYTES));
        }
    }

    @Test
    void makesFewLinksAndKeepsNoOtherAddressOut() throws IOException {
        try (Wire wire = open(0); Wire early = open(0); Wire late = open(0);
                DatagramSocket stranger = new DatagramSocket(0, InetAddress.getByName("127.0.0.2"))) {
            Link first = early.open(wire.address());
            wire.open(early.address());
            await(() -> offer(first, new byte[4]) == Wire.SENT, early, wire);
            for (int session = 1; session <= 2000; session++) {
                stranger.send(announcement(wire, session, TERM));
                drive(wire);
            }
            Link second = late.open(wire.address());
            await(() -> offer(second, new byte[4]) == Wire.SENT, early, late, wire);
            await(() -> offer(first, new byte[4]) == Wire.SENT, early, late, wire);
            assertThat(images()).as("two without a proof, one for the wire's link, and three of members")
                    .hasSizeBetween(3 + 2, 3 + 3);
        }
    }

    @Test
    void admitsNoMoreSendersBecauseItAnswersStrangers() throws IOException {
        try (Wire wire = open(0); Wire other = open(0);
                DatagramSocket stranger = new DatagramSocket(0, InetAddress.getByName("127.0.0.2"))) {
            for (int i = 0; i < 4; i++) {
                wire.answer(other.address());
            }
            for (int session = 1; session <= 100; session++) {
                stranger.send(announcement(wire, session, TERM));
                drive(wire);
            }
            await(() -> images().size() >= 2, wire);
            assertThat(images()).as("two without a proof").hasSize(2);
        }
    }

    @Test
    void endsNoMessageThatIsTooLong() {
        try (Wire wire = open(0); Wire other = open(0)) {
            AeronWire sender = (AeronWire) other;
            List<Integer> received = new ArrayList<>();
            Inbox inbox = new Lengths(received, wire);
            ExclusivePublication stream = sender.client().addExclusivePublication(
                    sender.networkChannel(wire.address()), AeronWire.networkStream());
            publish(stream, FrameDescriptor.UNFRAGMENTED, sender, wire, inbox);
            await(() -> {
                wire.poll(inbox, 10);
                return !received.isEmpty();
            }, sender);
            received.clear();
            for (int sent = 0; sent < TERM / 2; sent += stream.maxPayloadLength()) {
                publish(stream, sent == 0 ? FrameDescriptor.BEGIN_FRAG_FLAG : MIDDLE, sender, wire, inbox);
            }
            publish(stream, FrameDescriptor.END_FRAG_FLAG, sender, wire, inbox);
            publish(stream, FrameDescriptor.BEGIN_FRAG_FLAG, sender, wire, inbox);
            publish(stream, FrameDescriptor.END_FRAG_FLAG, sender, wire, inbox);
            publish(stream, FrameDescriptor.UNFRAGMENTED, sender, wire, inbox);
            await(() -> {
                wire.poll(inbox, 10);
                return received.size() >= 2;
            }, sender);
            assertThat(received).as("lengths of messages")
                    .containsExactly(2 * stream.maxPayloadLength(), stream.maxPayloadLength());
        }
    }

    @Test
    void asksAStrangerSeldomToSendAgain() throws IOException {
        try (Wire wire = open(0); RawSender stranger = new RawSender(wire, 1)) {
            int between = 64;
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(400);
            while (System.nanoTime() < end) {
                stranger.send(data(wire, 1, between, 20));
                stranger.drive(1);
            }
            stranger.drive(25);
            assertThat(stranger.received(NAK)).as("requests of what was left out in 400 ms").isBetween(2, 25);
            stranger.send(data(wire, 1, 0, 10));
            stranger.send(data(wire, 1, between, 20));
            await(() -> {
                stranger.drive();
                return stranger.messages.size() >= 2;
            });
            assertThat(stranger.messages).as("lengths of messages").containsExactly(10, 20);
            stranger.drive(100);
            assertThat(stranger.received(NAK)).as("requests when nothing is missing").isZero();
        }
    }

    @Test
    void takesDataOfAProvenSenderInAnyOrder() throws IOException {
        try (Wire wire = open(0); RawSender member = new RawSender(wire, 1)) {
            member.isProven = true;
            member.send(data(wire, 1, 0, 32));
            await(() -> {
                member.drive();
                return member.messages.size() == 1;
            });
            member.send(data(wire, 1, 128, 30));
            await(() -> {
                member.drive();
                return member.received(NAK) > 0;
            });
            member.send(data(wire, 1, 64, 20));
            await(() -> {
                member.drive();
                return member.messages.size() == 3;
            });
            assertThat(member.messages).as("lengths of messages").containsExactly(32, 20, 30);
        }
    }

    @Test
    void givesAStrangerThatBeginsAgainNoMoreMemory() throws IOException {
        try (Wire wire = open(0); RawSender stranger = new RawSender(wire, 1)) {
            byte revoked = 0x30;
            beginAgain(wire, stranger, revoked);
            stranger.send(data(wire, 1, 0, 10));
            await(() -> {
                stranger.drive();
                return stranger.messages.size() == 1;
            });
            byte endOfStream = 0x20;
            beginAgain(wire, stranger, endOfStream);
            stranger.send(packet(wire, frame(HEADER, 0, endOfStream, 64, 1)));
            beginAgain(wire, stranger, endOfStream);
        }
    }

    /** Ends the stream of session 1, as some flags say, and announces it again. */
    private void beginAgain(Wire wire, RawSender stranger, byte flags) {
        int at = stranger.messages.size() * 64;
        for (int i = 0; i < 40; i++) {
            stranger.send(packet(wire, frame(HEADER, 0, flags, at, 1)));
            stranger.drive(10);
            stranger.send(packet(wire, announcement(1, AeronWire.networkStream(), TERM).putInt(8, at)));
            stranger.drive(5);
        }
        assertThat(images()).hasSize(1);
    }

    @Test
    void readsNothingOfWhatADatagramLacks() throws IOException {
        try (Wire wire = open(0); RawSender member = new RawSender(wire, 1)) {
            member.isProven = true;
            DatagramPacket message = data(wire, 1, 0, 32);
            member.send(message);
            await(() -> {
                member.drive();
                return member.messages.size() == 1;
            });
            for (int bytes : new int[] {1, 7, 8, 12, 31}) {
                // So that the rest of a header lies in the driver's buffer.
                member.send(packet(wire, frame(HEADER, 0, (byte) 0, 64, 1)));
                member.send(new DatagramPacket(message.getData(), bytes, message.getSocketAddress()));
                member.drive(5);
            }
            assertThat(errors(wire)).isZero();
        }
    }

    @Test
    void answersNoMeasurementOfARoundTrip() throws IOException {
        try (Wire wire = open(0); RawSender stranger = new RawSender(wire, 1)) {
            byte reply = (byte) 0x80;
            ByteBuffer measurement = ByteBuffer.allocate(40).order(ByteOrder.LITTLE_ENDIAN).putInt(40).put((byte) 0)
                    .put(reply).putShort(ROUND_TRIP).putInt(1).putInt(AeronWire.networkStream());
            for (int i = 0; i < 10; i++) {
                stranger.send(packet(wire, measurement));
                stranger.drive(5);
            }
            assertThat(stranger.received(ROUND_TRIP)).isZero();
        }
    }

    /** Otherwise a sender has memory allocated for the unfinished messages of any number of others. */
    @Test
    void deliversNothingInTheNameOfAnotherSender() throws IOException {
        try (Wire wire = open(0); RawSender stranger = new RawSender(wire, 1)) {
            int each = 2 * HEADER;
            ByteBuffer three = ByteBuffer.allocate(3 * each).put(frame(each, each - 1, WHOLE, 0, 1))
                    .put(frame(each, each - 2, WHOLE, each, 2)).put(frame(each, each - 3, WHOLE, 2 * each, 1));
            stranger.send(packet(wire, three));
            await(() -> {
                stranger.drive();
                return stranger.messages.size() == 2;
            });
            assertThat(stranger.messages).as("lengths of messages").containsExactly(31, 29);
        }
    }

    @Test
    void takesTheNextTermOfASenderThatIsNotProven() throws IOException {
        try (Wire wire = open(0); RawSender stranger = new RawSender(wire, 1)) {
            int length = (48 << 10) - HEADER;
            int offset = 0;
            for (int sent = 1; sent <= 5; sent++) {
                int expected = sent;
                DatagramPacket message = data(wire, 1, offset, length);
                await(() -> {
                    stranger.send(message); // Again, while the window is closed.
                    stranger.drive(1);
                    return stranger.messages.size() == expected;
                });
                offset += HEADER + length;
            }
            ByteBuffer padding = frame(HEADER, TERM - offset, WHOLE, offset, 1);
            stranger.send(packet(wire, padding.putShort(6, (short) 0)));
            stranger.send(packet(wire, frame(2 * HEADER, HEADER + 7, WHOLE, 0, 1).putInt(20, 1)));
            await(() -> {
                stranger.drive();
                return stranger.messages.size() == 6;
            });
            assertThat(stranger.messages.getLast()).isEqualTo(7);
        }
    }

    @Test
    void refusesAnnouncementsThatNoSenderMakes() throws IOException {
        try (Wire wire = open(0); DatagramSocket stranger = new DatagramSocket(); Wire honest = open(0)) {
            int session = 0;
            for (int term : new int[] {0, -1, 100_000, 1 << 10, Integer.MIN_VALUE}) {
                stranger.send(announcement(wire, ++session, term));
                stranger.send(data(wire, session, 64, 10));
            }
            for (int mtu : new int[] {0, -32, 32, 1400, 65_536, 1 << 30}) {
                stranger.send(packet(wire, announcement(++session, AeronWire.networkStream(), TERM).putInt(32, mtu)));
            }
            for (int offset : new int[] {TERM, -32, 17}) {
                stranger.send(packet(wire, announcement(++session, AeronWire.networkStream(), TERM)
                        .putInt(8, offset)));
            }
            stranger.send(packet(wire, announcement(++session, AeronWire.networkStream(), TERM).putInt(20, 5)));
            Link link = honest.open(wire.address());
            await(() -> offer(link, new byte[4]) == Wire.SENT, honest, wire);
            await(() -> !images().isEmpty(), honest, wire);
            assertThat(images()).as("that of the member").hasSize(1);
            assertThat(errors(wire)).as("errors of the driver").isZero();
        }
    }

    private static long errors(Wire wire) {
        return ((AeronWire) wire).client().countersReader().getCounterValue(SystemCounterDescriptor.ERRORS.id());
    }

    /** A sender made of datagrams, accepted by a wire that the test drives. */
    private static final class RawSender implements AutoCloseable {
        private final Wire wire;
        private final DatagramChannel socket = DatagramChannel.open();
        private final ByteBuffer in = ByteBuffer.allocate(2048).order(ByteOrder.LITTLE_ENDIAN);
        private final List<Integer> messages = new ArrayList<>();
        private boolean isProven;

        RawSender(Wire wire, int session) throws IOException {
            this.wire = wire;
            socket.bind(new InetSocketAddress("127.0.0.1", 0));
            socket.configureBlocking(false);
            send(announcement(wire, session, TERM));
            await(() -> {
                drive();
                return received(STATUS) > 0;
            });
        }

        void send(DatagramPacket packet) {
            try {
                socket.send(ByteBuffer.wrap(packet.getData(), 0, packet.getLength()), packet.getSocketAddress());
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        void drive() {
            wire.poll((buffer, offset, length) -> {
                messages.add(length);
                if (isProven) {
                    wire.onProof();
                }
            }, 100);
        }

        void drive(long ms) {
            long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(ms);
            while (System.nanoTime() < end) {
                drive();
            }
        }

        /** Returns how many datagrams of a type have arrived since the last call; drops all others. */
        int received(short type) {
            try {
                int count = 0;
                while (socket.receive(in.clear()) != null) {
                    count += in.getShort(6) == type ? 1 : 0;
                }
                return count;
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        @Override
        public void close() throws IOException {
            socket.close();
        }
    }

    /** Sends a fragment as soon as there is room. */
    private static void publish(ExclusivePublication stream, byte flags, Wire sender, Wire receiver, Inbox inbox) {
        BufferClaim claim = new BufferClaim();
        await(() -> {
            receiver.poll(inbox, 10);
            return stream.tryClaim(stream.maxPayloadLength(), claim) > 0;
        }, sender);
        claim.flags(flags).commit();
    }

    /** Notes the lengths of messages of a proven sender. */
    private record Lengths(List<Integer> received, Wire wire) implements Inbox {
        @Override
        public void onMessage(DirectBuffer buffer, int offset, int length) {
            wire.onProof();
            received.add(length);
        }
    }
}
