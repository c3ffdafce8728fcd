package dev.starling.distributed.hostile;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.SplittableRandom;

/** Attacks on a wire over TCP. */
final class TcpAttack implements Attack {
    private static final long PREAMBLE = 0x0131_7063_742d_7473L;
    private static final long REPLY = 0x0132_7063_742d_7473L;
    private static final int REPLY_BYTES = 16;
    private static final byte BUSY = 1;
    private static final int MESSAGE = 1;
    private static final int MAX_OPEN = 400;
    private static final int MAX_NOISE = 3000;
    /** What a member sends that follows the address in a HELLO: a preamble, and a message of 32 bytes. */
    private static final int REFUSAL_BYTES = 16 + 8 + 32;
    private static final long SLOW_NS = 50_000_000;
    private static final int GREETINGS_IN_STREAM = 400;

    private final Kind kind;
    private final Forgery forgery;
    private final ServerSocketChannel listener;
    private final Deque<Connection> open = new ArrayDeque<>();
    private final Deque<SocketChannel> visitors = new ArrayDeque<>();
    private final ByteBuffer in = ByteBuffer.allocate(4096);
    private final ByteArrayOutputStream stream = new ByteArrayOutputStream();
    private long received;
    private int turn;

    /** The attacks. */
    enum Kind {
        /** Random bytes. */
        NOISE,
        /** A valid beginning, then random bytes. */
        PREFIX,
        /** Well-formed frames of all types, such as puts. */
        FRAMES,
        /** Greetings, which a member may answer with a connection and a refusal. */
        GREETINGS,
        /** Hundreds of greetings without a pause on each connection. */
        STREAMS,
        /** A recorded handshake and what followed. */
        REPLAY,
        /** Recorded frames with changes. */
        MUTANTS,
        /** Messages of absurd lengths. */
        LENGTHS,
        /** Connections on which nothing is sent. */
        HALF_OPEN,
        /** Connections on which one byte is sent in a while. */
        SLOW,
        /** Connections from many addresses that are closed again. */
        FLOOD,
        /** Connections that are reset in mid-frame. */
        RESETS
    }

    /** A connection and what the stranger sends on it. */
    private static final class Connection {
        private final SocketChannel channel;
        private final ByteBuffer text;
        private final ByteBuffer answer = ByteBuffer.allocate(REPLY_BYTES + 2).order(ByteOrder.LITTLE_ENDIAN);
        private long nextNs;

        Connection(SocketChannel channel, byte[] text) {
            this.channel = channel;
            this.text = ByteBuffer.wrap(text);
        }
    }

    TcpAttack(Kind kind, Forgery forgery, ServerSocketChannel listener) {
        this.kind = kind;
        this.forgery = forgery;
        this.listener = listener;
    }

    @Override
    public void strike(int port, SplittableRandom random) throws IOException {
        SocketChannel channel = SocketChannel.open();
        channel.configureBlocking(false);
        if (kind == Kind.FLOOD && random.nextInt(4) > 0 || random.nextInt(8) == 0) {
            channel.bind(new InetSocketAddress("127.0.0." + (2 + random.nextInt(200)), 0));
        }
        if (kind == Kind.RESETS || random.nextInt(8) == 0) {
            channel.setOption(StandardSocketOptions.SO_LINGER, 0);
        }
        try {
            channel.connect(new InetSocketAddress("127.0.0.1", port));
        } catch (IOException e) {
            channel.close();
            return;
        }
        open.addLast(new Connection(channel, text(random)));
        if (open.size() > (kind == Kind.FLOOD || kind == Kind.RESETS ? 20 : MAX_OPEN)) {
            close(open.removeFirst());
        }
        continueOne();
    }

    private byte[] text(SplittableRandom random) {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        if (kind != Kind.NOISE && kind != Kind.HALF_OPEN && kind != Kind.FLOOD) {
            out.writeBytes(longs(PREAMBLE, random.nextLong()));
        }
        switch (kind) {
            case NOISE, PREFIX -> out.writeBytes(Forgery.noise(random, MAX_NOISE));
            case FRAMES -> {
                for (int i = 0; i < 4; i++) {
                    out.writeBytes(unit(forgery.frame(random)));
                }
            }
            case GREETINGS -> {
                for (int i = 0; i < 4; i++) {
                    out.writeBytes(unit(forgery.greeting(random)));
                }
            }
            case STREAMS -> {
                if (stream.size() == 0) {
                    for (int i = 0; i < GREETINGS_IN_STREAM; i++) {
                        stream.writeBytes(unit(forgery.greeting(random)));
                    }
                }
                out.writeBytes(stream.toByteArray());
            }
            case REPLAY, SLOW -> {
                for (int i = random.nextInt(2); i < forgery.recorded(); i++) {
                    out.writeBytes(unit(forgery.recorded(i)));
                }
            }
            case MUTANTS -> {
                for (int i = 0; i < 4; i++) {
                    out.writeBytes(unit(forgery.mutant(random)));
                }
            }
            case LENGTHS -> {
                int length = random.nextInt(2) == 0 ? random.nextInt() : Integer.MAX_VALUE >> random.nextInt(18);
                out.writeBytes(ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putInt(MESSAGE).putInt(length)
                        .array());
                out.writeBytes(Forgery.noise(random, MAX_NOISE));
            }
            case RESETS -> {
                byte[] unit = unit(forgery.frame(random));
                out.write(unit, 0, random.nextInt(unit.length));
            }
            case HALF_OPEN, FLOOD -> { }
        }
        return out.toByteArray();
    }

    private static byte[] longs(long first, long second) {
        return ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(first).putLong(second).array();
    }

    private static byte[] unit(byte[] frame) {
        return ByteBuffer.allocate(8 + frame.length + (-frame.length & 7)).order(ByteOrder.LITTLE_ENDIAN)
                .putInt(MESSAGE).putInt(frame.length).put(frame).array();
    }

    @Override
    public void receive() throws IOException {
        for (int i = Math.min(8, open.size()); i > 0; i--) {
            continueOne();
        }
        SocketChannel visitor = listener.accept();
        if (visitor != null) {
            greet(visitor);
        }
        while (visitors.size() > 20) {
            listen(visitors.removeFirst());
        }
    }

    /** Continues the connection that was last opened or continued longest ago. */
    private void continueOne() throws IOException {
        Connection each = open.removeLast();
        if (continues(each)) {
            open.addFirst(each);
        } else {
            close(each);
        }
    }

    /** Accepts a member's connection to the address that a HELLO named, and answers in one of several ways. */
    private void greet(SocketChannel visitor) throws IOException {
        visitor.configureBlocking(false);
        try {
            switch (turn++ % 3) {
                case 0 -> visitor.write(ByteBuffer.wrap(longs(REPLY, turn)));
                case 1 -> visitor.write(ByteBuffer.wrap(new byte[300]));
                default -> { }
            }
        } catch (IOException e) {
            visitor.close();
            return;
        }
        visitors.addLast(visitor);
    }

    /** Checks what a member has sent to the address that a HELLO named. */
    private void listen(SocketChannel visitor) throws IOException {
        try (visitor) {
            int length = visitor.read(in.clear());
            received += Math.max(0, length);
            if (length > REFUSAL_BYTES) {
                throw new AssertionError("a member sent " + length + " bytes to the address in a HELLO");
            }
        } catch (IOException e) {
            return; // The member has reset the connection.
        }
    }

    private boolean continues(Connection connection) {
        try {
            if (!connection.channel.finishConnect()) {
                return true;
            }
            if (kind != Kind.SLOW) {
                connection.channel.write(connection.text);
            } else if (connection.text.hasRemaining() && System.nanoTime() > connection.nextNs) {
                connection.nextNs = System.nanoTime() + SLOW_NS;
                connection.channel.write(connection.text.slice(connection.text.position(), 1));
                connection.text.get();
            }
            int length = connection.channel.read(connection.answer);
            received += Math.max(0, length);
            check(connection.answer);
            return length >= 0;
        } catch (IOException e) {
            return false;
        }
    }

    /** An answer is a reply, and at most a byte which says that the process is busy. */
    private static void check(ByteBuffer answer) {
        int length = answer.position();
        boolean fits = length == 0 || length == 1 && (answer.get(0) == BUSY || answer.get(0) == (byte) REPLY)
                || length < REPLY_BYTES
                || answer.getLong(0) == REPLY && (length == REPLY_BYTES || length == REPLY_BYTES + 1
                && answer.get(REPLY_BYTES) == BUSY);
        if (!fits) {
            throw new AssertionError("a member answered a stranger with " + length + " bytes");
        }
    }

    private static void close(Connection connection) throws IOException {
        connection.channel.close();
    }

    @Override
    public long received() {
        return received;
    }

    @Override
    public void close() throws IOException {
        for (Connection each : open) {
            close(each);
        }
        while (!visitors.isEmpty()) {
            listen(visitors.removeFirst());
        }
    }
}
