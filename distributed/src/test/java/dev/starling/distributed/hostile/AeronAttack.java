package dev.starling.distributed.hostile;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.PortUnreachableException;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.DatagramChannel;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;

/** Attacks on a wire over Aeron, by datagrams that the stranger makes without Aeron. */
final class AeronAttack implements Attack {
    private static final short PAD = 0;
    private static final short DATA = 1;
    private static final short NAK = 2;
    private static final short STATUS = 3;
    private static final short ERROR = 4;
    private static final short SETUP = 5;
    private static final short ROUND_TRIP = 6;
    private static final short RESOLUTION = 7;
    private static final int HEADER = 32;
    private static final int SETUP_BYTES = 40;
    private static final int STATUS_BYTES = 36;
    private static final int STREAM = 1001;
    private static final int MTU = 1408;
    private static final int MAX_DATAGRAM = 65_504;
    private static final byte BEGIN = (byte) 0x80;
    private static final byte WHOLE = (byte) 0xc0;
    private static final byte END_OF_STREAM = 0x20;
    private static final byte REVOKED = 0x30;
    /** Of all datagrams, those that keep announced senders alive during attacks of other kinds. */
    private static final int ALIVE_EVERY = 50;
    private static final int BEGINNINGS = 16;
    private static final int SETUP_EVERY = 20;
    private static final int FRAGMENT = 1200;
    private static final int SOCKETS = 6;
    private static final int SESSIONS = 12;
    /** What a member may send to the address in a HELLO: a refusal without content. */
    private static final int REFUSAL = 32;

    private final Forgery forgery;
    /** The length of terms for which a member asks, too. */
    private final int term;
    private final List<DatagramChannel> sockets = new ArrayList<>();
    /** By port, senders of which that process knows: they outlive an attack of one kind. */
    private final Map<Integer, List<Stream>> streams = new HashMap<>();
    private final ByteBuffer in = ByteBuffer.allocate(1 << 16).order(ByteOrder.LITTLE_ENDIAN);
    private Kind kind = Kind.FLOOD;
    private long received;
    private int nextSession;

    /** The attacks. */
    enum Kind {
        /** Data of announced senders: recorded, changed and well-formed frames. */
        FRAMES,
        /** Greetings of announced senders, which a member may answer with a link and a refusal. */
        GREETINGS,
        /** Messages of announced senders that never end. */
        ENDLESS,
        /** Datagrams of announced senders with many beginnings of messages, each in the name of another sender. */
        SESSIONS,
        /** Senders that end their stream, withdraw it, and announce it again. */
        ENDED,
        /** Random bytes. */
        NOISE,
        /** Data of senders that were not announced. */
        UNKNOWN,
        /** Requests to send again, reports of what arrived, measurements of round trips, errors. */
        CONTROL,
        /** Announcements and any of the above with changed bits. */
        MUTANTS,
        /** The smallest datagrams. */
        FLOOD,
        /** Announcements of senders, of any stream, with terms of any length. */
        SETUPS,
        /** Announcements that ask for no more than a member's would, by ever more senders. */
        SENDERS
    }

    /** A sender that was announced. */
    private static final class Stream {
        private final int termLength;
        private final DatagramChannel socket;
        private final int session;
        private final int initialTerm;
        private long position;
        private long consumed;
        private boolean accepted;
        private int sent;

        Stream(int termLength, DatagramChannel socket, int session, int initialTerm) {
            this.termLength = termLength;
            this.socket = socket;
            this.session = session;
            this.initialTerm = initialTerm;
        }

        int term() {
            return initialTerm + (int) (position / termLength);
        }

        int offset() {
            return (int) (position % termLength);
        }

        long position(int ofTerm, int offset) {
            return (ofTerm - initialTerm) * (long) termLength + offset;
        }
    }

    /** Attacks from a socket of the stranger, whose address is in its HELLOs, and from others of other addresses. */
    AeronAttack(Forgery forgery, DatagramChannel own, int term, long seed) throws IOException {
        this.forgery = forgery;
        this.term = term;
        nextSession = (int) seed << 16;
        sockets.add(own);
        for (int i = 1; i < SOCKETS; i++) {
            DatagramChannel socket = DatagramChannel.open();
            socket.configureBlocking(false);
            socket.bind(new InetSocketAddress("127.0.0." + (1 + i), 0));
            sockets.add(socket);
        }
    }

    /** Attacks in another way from now on. */
    AeronAttack use(Kind next) {
        kind = next;
        return this;
    }

    @Override
    public void strike(int port, SplittableRandom random) throws IOException {
        DatagramChannel from = sockets.get(random.nextInt(sockets.size()));
        if (kind == Kind.FRAMES || kind == Kind.GREETINGS || kind == Kind.ENDLESS
                || kind == Kind.SESSIONS || kind == Kind.ENDED || random.nextInt(ALIVE_EVERY) == 0) {
            stream(port, from, random);
        } else {
            send(from, port, datagram(kind, random));
        }
    }

    private static void send(DatagramChannel from, int port, ByteBuffer datagram) throws IOException {
        try {
            from.send(datagram, new InetSocketAddress("127.0.0.1", port));
        } catch (PortUnreachableException e) {
            // Another program's port, or the control's.
        }
    }

    private ByteBuffer datagram(Kind like, SplittableRandom random) {
        return switch (like) {
            case NOISE -> ByteBuffer.wrap(Forgery.noise(random, random.nextInt(8) == 0 ? MAX_DATAGRAM : 200));
            case FLOOD -> ByteBuffer.allocate(1);
            case SETUPS -> setup(random.nextInt(64), random.nextInt(2) == 0 ? STREAM : random.nextInt(2000),
                    random.nextInt(4), random.nextInt(3) == 0 ? random.nextInt() : 1 << random.nextInt(16, 31),
                    random.nextInt(3) == 0 ? random.nextInt()
                    : random.nextInt(3) == 0 ? MAX_DATAGRAM : MTU, 0);
            case SENDERS -> setup(nextSession++, STREAM, 0, term, MTU, 0);
            case UNKNOWN, FRAMES, GREETINGS, ENDLESS, SESSIONS, ENDED -> {
                byte[] frame = forgery.frame(random);
                yield data(random.nextInt(), random.nextInt(), random.nextInt(term) & -32,
                        random.nextInt(4) == 0 ? (byte) random.nextInt() : WHOLE, DATA, frame, frame.length);
            }
            case CONTROL -> control(random);
            case MUTANTS -> {
                ByteBuffer one = random.nextInt(4) == 0 ? setup(random.nextInt(8), STREAM, 0, term, MTU, 0)
                        : datagram(Kind.values()[random.nextInt(Kind.MUTANTS.ordinal())], random);
                for (int i = 1 + random.nextInt(3); i > 0 && one.limit() > 0; i--) {
                    int at = random.nextInt(Math.min(SETUP_BYTES, one.limit()));
                    one.put(at, (byte) (one.get(at) ^ 1 << random.nextInt(8)));
                }
                yield one;
            }
        };
    }

    private static ByteBuffer begin(int bytes, int length, byte flags, short type) {
        return ByteBuffer.allocate(bytes).order(ByteOrder.LITTLE_ENDIAN).putInt(length).put((byte) 0).put(flags)
                .putShort(type);
    }

    private static ByteBuffer setup(int session, int stream, int initialTerm, int termLength, int mtu, int terms) {
        return setup(session, stream, initialTerm, termLength, mtu, terms, 0);
    }

    private static ByteBuffer setup(int session, int stream, int initialTerm, int termLength, int mtu, int terms,
            int offset) {
        return begin(SETUP_BYTES, SETUP_BYTES, (byte) 0, SETUP).putInt(offset).putInt(session).putInt(stream)
                .putInt(initialTerm).putInt(initialTerm + terms).putInt(termLength).putInt(mtu).putInt(0).flip();
    }

    private static ByteBuffer data(int session, int term, int offset, byte flags, short type, byte[] body, int length) {
        ByteBuffer frame = begin(HEADER + body.length, HEADER + length, flags, type).putInt(offset).putInt(session)
                .putInt(STREAM).putInt(term).putLong(0).put(body);
        return frame.flip();
    }

    private static ByteBuffer control(SplittableRandom random) {
        short type = switch (random.nextInt(7)) {
            case 0 -> NAK;
            case 1, 2 -> STATUS;
            case 3 -> ERROR;
            case 4 -> ROUND_TRIP;
            case 5 -> RESOLUTION;
            default -> DATA;
        };
        int bytes = 28 + 4 * random.nextInt(8);
        ByteBuffer frame = begin(bytes, random.nextInt(4) == 0 ? random.nextInt(100) : bytes, (byte) random.nextInt(),
                type);
        while (frame.remaining() >= Integer.BYTES) {
            frame.putInt(random.nextInt(3) == 0 ? STREAM : random.nextInt(2) == 0 ? random.nextInt()
                    : random.nextInt(64));
        }
        return frame.flip();
    }

    /** Sends the next datagram of an announced sender. */
    private void stream(int port, DatagramChannel from, SplittableRandom random) throws IOException {
        List<Stream> ofPort = streams.computeIfAbsent(port, _ -> new ArrayList<>());
        if (ofPort.size() < SESSIONS) {
            ofPort.add(new Stream(term, from, nextSession++, random.nextInt()));
        }
        Stream stream = ofPort.get(random.nextInt(ofPort.size()));
        if (stream.sent++ % SETUP_EVERY == 0) {
            send(stream.socket, port, announcement(stream));
        }
        if (!stream.accepted) {
            return;
        }
        if (kind == Kind.ENDED) {
            send(stream.socket, port, data(stream.session, stream.term(), stream.offset(),
                    random.nextInt(2) == 0 ? END_OF_STREAM : REVOKED, DATA, new byte[0], -HEADER));
            send(stream.socket, port, announcement(stream));
            if (random.nextInt(100) == 0) {
                ofPort.remove(stream);
            }
            return;
        }
        if (stream.position - stream.consumed > term / 4) {
            stream.position = stream.consumed;
        }
        byte flags = kind != Kind.ENDLESS ? WHOLE : stream.position == 0 || stream.offset() == 0 ? BEGIN : 0;
        byte[] body = switch (kind) {
            case ENDLESS -> new byte[FRAGMENT];
            case SESSIONS -> beginnings(stream, random);
            case GREETINGS -> forgery.greeting(random);
            default -> body(random);
        };
        int aligned = HEADER + body.length + (-body.length & 31);
        if (stream.offset() + aligned > term) {
            int rest = term - stream.offset();
            send(stream.socket, port, data(stream.session, stream.term(), stream.offset(), WHOLE, PAD, new byte[0],
                    rest - HEADER));
            stream.position += rest;
        } else {
            send(stream.socket, port, data(stream.session, stream.term(), stream.offset(), flags, DATA, body,
                    kind == Kind.SESSIONS ? HEADER : body.length));
            stream.position += aligned;
        }
    }

    private ByteBuffer announcement(Stream stream) {
        return setup(stream.session, STREAM, stream.initialTerm, term, MTU, stream.term() - stream.initialTerm,
                stream.offset());
    }

    /** Returns what follows the header of a frame that is twice as long: its rest, and frames of the same length. */
    private static byte[] beginnings(Stream stream, SplittableRandom random) {
        byte[] all = new byte[HEADER + BEGINNINGS * 2 * HEADER];
        ByteBuffer frames = ByteBuffer.wrap(all).order(ByteOrder.LITTLE_ENDIAN).position(HEADER);
        for (int i = 1; i <= BEGINNINGS; i++) {
            frames.putInt(2 * HEADER).put((byte) 0).put(BEGIN).putShort(DATA).putInt(stream.offset() + i * 2 * HEADER)
                    .putInt(random.nextInt()).putInt(STREAM).putInt(stream.term()).putLong(0)
                    .position(frames.position() + HEADER);
        }
        return all;
    }

    private byte[] body(SplittableRandom random) {
        return switch (random.nextInt(4)) {
            case 0 -> forgery.recorded(random.nextInt(forgery.recorded()));
            case 1 -> forgery.mutant(random);
            case 2 -> Forgery.noise(random, FRAGMENT);
            default -> forgery.frame(random);
        };
    }

    @Override
    public void receive() throws IOException {
        for (DatagramChannel socket : sockets) {
            for (int i = 0; i < 32; i++) {
                SocketAddress source;
                try {
                    source = socket.receive(in.clear());
                } catch (PortUnreachableException e) {
                    continue;
                }
                if (source == null) {
                    break;
                }
                received += in.flip().remaining();
                check(socket);
                if (in.limit() == SETUP_BYTES && in.getShort(6) == SETUP) {
                    accept(socket, source);
                }
            }
        }
    }

    /** Accepts the link that a member opens to the address in a HELLO, so that it sends its refusal. */
    private void accept(DatagramChannel socket, SocketAddress source) throws IOException {
        socket.send(begin(STATUS_BYTES, STATUS_BYTES, (byte) 0, STATUS).putInt(in.getInt(12)).putInt(in.getInt(16))
                .putInt(in.getInt(24)).putInt(in.getInt(8)).putInt(term / 4).putLong(1).flip(), source);
    }

    /** A member sends a stranger acknowledgements, announcements of a link on which it refuses, and no data. */
    private void check(DatagramChannel socket) {
        int length = in.limit();
        short type = length < 8 ? -1 : in.getShort(6);
        boolean fits = switch (type) {
            case STATUS -> acknowledge(socket);
            case NAK -> sendAgain(socket);
            case SETUP, ROUND_TRIP, ERROR -> length <= SETUP_BYTES + MTU;
            case DATA, PAD -> length <= HEADER + REFUSAL;
            default -> false;
        };
        if (!fits) {
            throw new AssertionError("a member sent a stranger " + length + " bytes of type " + type);
        }
    }

    private boolean acknowledge(DatagramChannel socket) {
        Stream stream = announced(socket);
        if (stream != null) {
            long consumed = stream.position(in.getInt(16), in.getInt(20));
            if (!stream.accepted || consumed < stream.consumed) { // The member has begun to listen, or again.
                stream.position = consumed;
            }
            stream.accepted = true;
            stream.consumed = consumed;
        }
        return in.limit() <= SETUP_BYTES + HEADER;
    }

    private boolean sendAgain(DatagramChannel socket) {
        Stream stream = announced(socket);
        if (stream != null) {
            stream.position = Math.max(stream.consumed, stream.position(in.getInt(16), in.getInt(20)));
        }
        return in.limit() <= SETUP_BYTES;
    }

    /** Returns the sender of which an acknowledgement speaks, or {@code null}. */
    private Stream announced(DatagramChannel socket) {
        for (List<Stream> ofPort : streams.values()) {
            for (Stream each : ofPort) {
                if (each.socket == socket && each.session == in.getInt(8)) {
                    return each;
                }
            }
        }
        return null;
    }

    @Override
    public long received() {
        return received;
    }

    /** Sockets and senders stay. */
    @Override
    public void close() { }
}
