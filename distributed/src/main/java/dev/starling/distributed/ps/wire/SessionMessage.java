package dev.starling.distributed.ps.wire;

import dev.starling.distributed.encoding.LossReport;
import dev.starling.distributed.encoding.RecordCodec;
import dev.starling.distributed.group.Channels;
import dev.starling.nn.train.SettingsMismatchException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import org.agrona.DirectBuffer;

/**
 * Messages between a worker and a server that carry no weights or gradients. They begin as the requests and replies of
 * {@link Message} do, with a kind and the number of the sending worker or server.
 */
public sealed interface SessionMessage {
    /** A part of a worker's encoded {@link Plan} of {@code bytes} bytes. The whole plan opens a session. */
    record Hello(int bytes, int offset, byte[] part) implements SessionMessage { }

    /**
     * The server is ready.
     *
     * @param continues whether the server has continued with the contents of its directory
     * @param process random number of the server's process
     * @param notes of the worker that is furthest ahead; empty if none are known
     */
    record Welcome(boolean continues, long process, Map<String, String> notes) implements SessionMessage { }

    /** The server refuses the worker. */
    record Refused(String reason) implements SessionMessage { }

    /** The settings of two workers differ; the fields are those of the exception that workers and servers throw. */
    record Differs(String setting, int worker, String reason) implements SessionMessage {
        /** Returns the message of an exception. */
        public static Differs of(SettingsMismatchException e) {
            return new Differs(e.setting(), e.rank(), String.valueOf(e.getMessage()));
        }

        /** Returns the exception. */
        public SettingsMismatchException exception() {
            return new SettingsMismatchException(setting, worker, reason);
        }
    }

    /** The notes of a worker's position in the run, after a step. */
    record Notes(long step, Map<String, String> notes) implements SessionMessage { }

    /** The notes of the position at which worker 0 starts the run. */
    record Begin(long step, Map<String, String> notes) implements SessionMessage { }

    /** Answers {@link Begin}. */
    record Begun() implements SessionMessage { }

    /** The worker is done. */
    record Goodbye() implements SessionMessage { }

    /** Answers {@link Goodbye}. */
    record Farewell() implements SessionMessage { }

    /** Confirms {@link Farewell}. */
    record FarewellConfirmed() implements SessionMessage { }

    /** A request of a {@code RowTask}: id, kind, arguments. */
    record Task(byte[] request) implements SessionMessage { }

    /** The encoded state of a {@code RowTask}. */
    record TaskState(byte[] report) implements SessionMessage { }

    /** A task with rows makes progress; workers may have to wait for it. */
    record Working() implements SessionMessage { }

    /** The loss for which synchronous training ends. */
    record RunLost(LossReport loss) implements SessionMessage { }

    /** The kind of all of these messages, greater than those of requests and replies. */
    int KIND = 20;

    RecordCodec<SessionMessage> CODEC = RecordCodec.of(SessionMessage.class);

    /** Offset of the number of the sending worker or server. */
    int SENDER = 4;

    /** Length in bytes of kind and sender. */
    int HEADER = 8;

    /** Maximum length of the part of a plan in one message. */
    int MAX_PART_BYTES = 16_000;

    /** Returns the whole message: channel, kind, number of the sender, body. */
    default byte[] encode(int sender) {
        byte[] body = CODEC.encode(this);
        return ByteBuffer.allocate(Channels.HEADER + HEADER + body.length).order(Message.ORDER).putInt(Message.CHANNEL)
                .putInt(KIND).putInt(sender).put(body).array();
    }

    /**
     * Decodes a message; {@code offset} is that of the kind.
     *
     * @throws IOException if the bytes are not such a message
     */
    static SessionMessage decode(DirectBuffer buffer, int offset, int length) throws IOException {
        if (buffer.getInt(offset, Message.ORDER) != KIND) {
            throw new IOException("unknown kind of message");
        }
        return CODEC.decode(buffer, offset + HEADER, length - HEADER);
    }
}
