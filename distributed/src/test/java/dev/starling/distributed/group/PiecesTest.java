package dev.starling.distributed.group;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.Endpoint;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class PiecesTest {
    private static final Duration SOON = Duration.ofSeconds(5);

    private final TransportConfig config = TransportConfig.of("local", Secret.random());
    private final Transport receiver = Transport.open(config);
    private final Inbox inbox = new Inbox();
    private final List<Control> received = new ArrayList<>();
    private final List<Transport> senders = new ArrayList<>();
    private int arrived;

    PiecesTest() {
        receiver.onMessage((from, buffer, offset, length) -> {
            arrived++;
            Control message = inbox.read(from, buffer, offset, length);
            if (message != null) {
                received.add(message);
            }
        });
    }

    @AfterEach
    void close() {
        senders.forEach(Transport::close);
        receiver.close();
    }

    private Endpoint sender() {
        Transport sender = Transport.open(config);
        senders.add(sender);
        Endpoint endpoint = sender.connect(receiver.address(), new byte[0]);
        receiver.await(() -> sender.doWork() >= 0 && endpoint.isConnected(), SOON, "the sender");
        return endpoint;
    }

    private void send(Endpoint sender, byte[] piece) {
        int before = arrived;
        assertThat(sender.send(new UnsafeBuffer(piece), 0, piece.length)).isEqualTo(Endpoint.OK);
        receiver.await(() -> arrived > before, SOON, "the piece");
    }

    private static Control message(char content) {
        return new Control.Refused(String.valueOf(content).repeat(5 * Pieces.MAX_PIECE / 2));
    }

    private static List<byte[]> pieces(char content) {
        return Pieces.of(Control.CODEC.encode(message(content)));
    }

    @Test
    void putsMessagesOfSeveralSendersTogether() {
        List<Endpoint> both = List.of(sender(), sender());
        for (int i = 0; i < pieces('a').size(); i++) {
            send(both.getFirst(), pieces('a').get(i));
            send(both.getLast(), pieces('b').get(i));
        }
        assertThat(received).containsExactly(message('a'), message('b'));
    }

    @Test
    void dropsAMessageWithAMissingPiece() {
        Endpoint sender = sender();
        List.of(0, 2, 0, 1, 2).forEach(piece -> send(sender, pieces('a').get(piece)));
        assertThat(received).containsExactly(message('a'));
    }

    @Test
    void keepsALimitedLengthAndNothingOfALostSender() {
        ByteBuffer first = ByteBuffer.allocate(Channels.HEADER + 9).order(Channels.ORDER)
                .putInt(Channels.CONTROL_PIECES).putInt(Pieces.MAX_BYTES);
        for (int held = 0; held < Pieces.MAX_PARTIAL_BYTES; held += Pieces.MAX_BYTES) {
            send(sender(), first.array());
        }
        Endpoint other = sender();
        pieces('a').forEach(piece -> send(other, piece));
        assertThat(received).isEmpty();
        senders.getFirst().close();
        receiver.await(() -> {
            pieces('a').forEach(piece -> send(other, piece));
            return !received.isEmpty();
        }, SOON, "the message for which there is room");
    }
}
