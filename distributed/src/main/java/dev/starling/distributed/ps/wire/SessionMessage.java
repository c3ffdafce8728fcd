package dev.starling.distributed.ps.wire;

import dev.starling.distributed.group.Control;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.agrona.DirectBuffer;

/**
 * Messages between a worker and a server that carry no weights or gradients. They begin as the requests and replies of
 * {@link Message} do, with a kind and the number of the sending worker or server, but their kinds are greater.
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
    record Welcome(boolean continues, long process, byte[] notes) implements SessionMessage { }

    /** The server refuses the worker. */
    record Refused(String reason) implements SessionMessage { }

    /** The notes of a worker's position in the run, after a step. */
    record Notes(long step, byte[] notes) implements SessionMessage { }

    /** The notes of the position at which worker 0 starts the run. */
    record Begin(long step, byte[] notes) implements SessionMessage { }

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

    /** The loss for which synchronous training ends; its epoch is that in which the run started. */
    record RunLost(Control.Lost loss) implements SessionMessage { }

    /** The smallest kind of these messages. */
    int MIN_KIND = 20;

    /** Offset of the number of the sending worker or server. */
    int SENDER = 4;

    /** Length in bytes of kind and sender. */
    int HEADER = 8;

    /** Maximum length of the part of a plan in one message. */
    int MAX_PART_BYTES = 16_000;

    /** Returns the whole message: channel, kind, number of the sender, body. */
    default byte[] encode(int sender) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            out.writeInt(Integer.reverseBytes(Message.CHANNEL));
            switch (this) {
                case Hello m -> {
                    begin(out, MIN_KIND, sender).writeInt(m.bytes);
                    out.writeInt(m.offset);
                    out.write(m.part);
                }
                case Welcome m -> {
                    begin(out, 21, sender).writeBoolean(m.continues);
                    out.writeLong(m.process);
                    out.write(m.notes);
                }
                case Refused m -> begin(out, 22, sender).write(m.reason.getBytes(StandardCharsets.UTF_8));
                case Notes m -> {
                    begin(out, 23, sender).writeLong(m.step);
                    out.write(m.notes);
                }
                case Begin m -> {
                    begin(out, 24, sender).writeLong(m.step);
                    out.write(m.notes);
                }
                case Begun _ -> begin(out, 25, sender);
                case Goodbye _ -> begin(out, 26, sender);
                case Farewell _ -> begin(out, 27, sender);
                case FarewellConfirmed _ -> begin(out, 28, sender);
                case Task m -> begin(out, 29, sender).write(m.request);
                case TaskState m -> begin(out, 30, sender).write(m.report);
                case Working _ -> begin(out, 31, sender);
                case RunLost m -> begin(out, 32, sender).write(m.loss.encode());
            }
        } catch (IOException e) {
            throw new IllegalStateException("writing to a byte array cannot fail", e);
        }
        return bytes.toByteArray();
    }

    private static DataOutputStream begin(DataOutputStream out, int kind, int sender) throws IOException {
        out.writeInt(Integer.reverseBytes(kind));
        out.writeInt(Integer.reverseBytes(sender));
        return out;
    }

    /**
     * Decodes a message; {@code offset} is that of the kind.
     *
     * @throws IOException if the bytes are not such a message
     */
    static SessionMessage decode(DirectBuffer buffer, int offset, int length) throws IOException {
        byte[] body = new byte[Math.max(0, length - HEADER)];
        buffer.getBytes(offset + length - body.length, body);
        DataInputStream in = new DataInputStream(new ByteArrayInputStream(body));
        return switch (buffer.getInt(offset, Message.ORDER)) {
            case MIN_KIND -> new Hello(in.readInt(), in.readInt(), in.readAllBytes());
            case 21 -> new Welcome(in.readBoolean(), in.readLong(), in.readAllBytes());
            case 22 -> new Refused(readText(in));
            case 23 -> new Notes(in.readLong(), in.readAllBytes());
            case 24 -> new Begin(in.readLong(), in.readAllBytes());
            case 25 -> new Begun();
            case 26 -> new Goodbye();
            case 27 -> new Farewell();
            case 28 -> new FarewellConfirmed();
            case 29 -> new Task(in.readAllBytes());
            case 30 -> new TaskState(in.readAllBytes());
            case 31 -> new Working();
            case 32 -> {
                if (!(Control.decode(body) instanceof Control.Lost loss)) {
                    throw new IOException("the message has no loss");
                }
                yield new RunLost(loss);
            }
            default -> throw new IOException("unknown kind of message");
        };
    }

    private static String readText(DataInputStream in) throws IOException {
        return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
}
