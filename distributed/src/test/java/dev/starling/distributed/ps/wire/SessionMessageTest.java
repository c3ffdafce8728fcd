package dev.starling.distributed.ps.wire;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.group.Channels;
import java.io.IOException;
import java.util.Map;
import java.util.stream.Stream;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class SessionMessageTest {
    private static final byte[] BYTES = {1, -2, 3};
    private static final Map<String, String> NOTES = Map.of("epoch", "3", "a = b", "two\nlines");

    static Stream<SessionMessage> all() {
        return Stream.of(new SessionMessage.Hello(70_000, 16_000, BYTES), new SessionMessage.Welcome(true, -5, NOTES),
                new SessionMessage.Refused("why — because"), new SessionMessage.Notes(7, NOTES),
                new SessionMessage.Begin(8, NOTES), new SessionMessage.Begun(), new SessionMessage.Goodbye(),
                new SessionMessage.Farewell(), new SessionMessage.FarewellConfirmed(), new SessionMessage.Task(BYTES),
                new SessionMessage.TaskState(new byte[100_000]), new SessionMessage.Working(),
                new SessionMessage.RunLost(new LossReport(-1, 5_000_000, "killed")));
    }

    @ParameterizedTest
    @MethodSource("all")
    void isDecodedAsItWasEncoded(SessionMessage message) throws IOException {
        UnsafeBuffer encoded = new UnsafeBuffer(message.encode(17));
        assertThat(encoded.getInt(0, Channels.ORDER)).isEqualTo(Message.CHANNEL);
        int length = encoded.capacity() - Channels.HEADER;
        assertThat(encoded.getInt(Channels.HEADER, Message.ORDER)).isEqualTo(SessionMessage.KIND);
        assertThat(encoded.getInt(Channels.HEADER + SessionMessage.SENDER, Message.ORDER)).isEqualTo(17);
        SessionMessage decoded = SessionMessage.decode(encoded, Channels.HEADER, length);
        assertThat(decoded).usingRecursiveComparison().isEqualTo(message).isInstanceOf(message.getClass());
    }

    @Test
    void refusesWhatIsNoMessage() {
        UnsafeBuffer welcome = new UnsafeBuffer(new SessionMessage.Welcome(true, 1, NOTES).encode(0));
        assertThatThrownBy(() -> SessionMessage.decode(welcome, Channels.HEADER, SessionMessage.HEADER + 5))
                .isInstanceOf(IOException.class);
        UnsafeBuffer unknown = new UnsafeBuffer(new byte[SessionMessage.HEADER]);
        unknown.putInt(0, 99, Message.ORDER);
        assertThatThrownBy(() -> SessionMessage.decode(unknown, 0, SessionMessage.HEADER))
                .isInstanceOf(IOException.class).hasMessageContaining("unknown kind");
    }
}
