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
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
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
        ByteBuffer frame = ByteBuffer.allocate(SETUP_BYTES).order(ByteOrder.LITTLE_ENDIAN).putInt(SETUP_BYTES)
                .putShort((short) 0).putShort(SETUP).putInt(0).putInt(session).putInt(stream)
                .putInt(0).putInt(0).putInt(term).putInt(1408).putInt(0);
        String address = to.address();
        int colon = address.lastIndexOf(':');
        return new DatagramPacket(frame.array(), SETUP_BYTES, new InetSocketAddress(address.substring(0, colon),
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
            assertThat(images()).as("8 without a proof and 2 for the wire's link, and three of members")
                    .hasSizeBetween(3, 8 + 2 + 3);
        }
    }

    @Test
    void endsNoMessageThatIsTooLong() {
        try (Wire wire = open(0); Wire other = open(0)) {
            AeronWire sender = (AeronWire) other;
            List<Integer> received = new ArrayList<>();
            Inbox inbox = new Lengths(received);
            ExclusivePublication stream = sender.client().addExclusivePublication(
                    sender.networkChannel(wire.address()), AeronWire.networkStream());
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

    /** Sends a fragment as soon as there is room. */
    private static void publish(ExclusivePublication stream, byte flags, Wire sender, Wire receiver, Inbox inbox) {
        BufferClaim claim = new BufferClaim();
        await(() -> {
            receiver.poll(inbox, 10);
            return stream.tryClaim(stream.maxPayloadLength(), claim) > 0;
        }, sender);
        claim.flags(flags).commit();
    }

    /** Notes the lengths of messages. */
    private record Lengths(List<Integer> received) implements Inbox {
        @Override
        public void onMessage(DirectBuffer buffer, int offset, int length) {
            received.add(length);
        }
    }
}
