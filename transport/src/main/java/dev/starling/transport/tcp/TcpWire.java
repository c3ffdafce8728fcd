package dev.starling.transport.tcp;

import dev.starling.errors.OpenFiles;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.Backoff;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.BindException;
import java.net.Inet6Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolFamily;
import java.net.StandardProtocolFamily;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedSelectorException;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.agrona.DirectBuffer;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A wire over non-blocking sockets that {@link #poll} drives. Each link is a connection of its own, over which only its
 * owner sends.
 */
final class TcpWire implements Wire {
    static final int MAX_MESSAGE = (128 << 10) - Unit.MESSAGE_HEADER;
    /** Longer than any message of a handshake. */
    static final int MAX_UNPROVEN_MESSAGE = Buffers.SMALL - Unit.MESSAGE_HEADER;

    private static final System.Logger LOG = System.getLogger(TcpWire.class.getName());
    /** If this process was stopped, its peers get this much of the time as theirs. */
    private static final long MAX_STEP_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long UPKEEP_NS = TimeUnit.MILLISECONDS.toNanos(100);
    private static final long CLOSE_NS = TimeUnit.MILLISECONDS.toNanos(500);
    private static final int UNPROVEN_SHARE = 2;
    private static final Consumer<SelectionKey> IGNORED = key -> { };

    private final TcpSettings settings;
    private final String address;
    private final Selector selector;
    private final Gate gate;
    private final Buffers buffers = new Buffers();
    private final Congestion congestion;
    private final SecureRandom random = new SecureRandom();
    /** Lanes to which their peers may add connections, by ticket. */
    private final Map<Long, Lane> lanes = new HashMap<>();
    private final ByteBuffer ticket = ByteBuffer.allocateDirect(Unit.TICKET);
    private final ByteBuffer preamble = ByteBuffer.allocateDirect(Unit.PREAMBLE);
    private final ByteBuffer reply = ByteBuffer.allocateDirect(Unit.REPLY);
    private final ByteBuffer busy = ByteBuffer.allocateDirect(1).put(0, Unit.BUSY);
    /** Connections whose peers are proven. */
    private final List<InboundConnection> inbound = new ArrayList<>();
    private final List<TcpLink> links = new ArrayList<>();
    private final List<TcpLink> closing = new ArrayList<>();
    private final Consumer<SelectionKey> onReady = this::onReady;
    private Backoff backoff = Backoff.forThreads(1);
    /** Set by each poll. */
    @SuppressWarnings("NullAway.Init")
    private Inbox inbox;
    /** The connection of the message that is being delivered. */
    private @Nullable InboundConnection delivering;
    private int room;
    /** Index of the connection that was looked at last for messages that wait for room. */
    private int turn;
    private int work;
    private boolean polling;
    private boolean closed;
    private long realNs = System.nanoTime();
    private long nowNs;
    private long nextUpkeepNs;

    private TcpWire(TcpSettings settings, ServerSocketChannel listener) throws IOException {
        this.settings = settings;
        long number = random.nextLong();
        Unit.putPreamble(new UnsafeBuffer(preamble), 0, number, settings.connections() > 1);
        Unit.putReply(new UnsafeBuffer(reply), 0, number);
        address = HostPort.format(settings.host(), ((InetSocketAddress) listener.getLocalAddress()).getPort());
        congestion = new Congestion(settings.congestion());
        selector = Selector.open();
        try {
            gate = new Gate(this, listener, settings.timeToProveNs());
        } catch (IOException e) {
            close(selector);
            throw e;
        }
    }

    static TcpWire open(TcpSettings settings) {
        ServerSocketChannel listener = null;
        try {
            listener = ServerSocketChannel.open(family(settings.bind().getAddress()));
            listener.configureBlocking(false);
            if (settings.receiveBuffer() > 0) {
                listener.setOption(StandardSocketOptions.SO_RCVBUF, settings.receiveBuffer());
            }
            listener.bind(settings.bind(), Gate.BACKLOG);
            return new TcpWire(settings, listener);
        } catch (IOException e) {
            if (listener != null) {
                close(listener);
            }
            throw failure(settings.bind(), e);
        } catch (UnsupportedOperationException e) {
            throw new TransportException(Problem.UNAVAILABLE, "cannot listen at " + settings.bind() + ": "
                    + e.getMessage(), "choose an IPv4 address, or start Java without preferIPv4Stack", e);
        }
    }

    private static TransportException failure(InetSocketAddress bind, IOException e) {
        return e instanceof BindException
                ? HostPort.unbound(bind, e, "use one at which peers reach it, or name one of this machine with the "
                        + "option bind")
                : new TransportException(Problem.UNAVAILABLE, "cannot listen at " + bind + ": " + e,
                        OpenFiles.remedy(e, "allow this process to use the network, and to open more"
                                + " files (ulimit -n)"), e);
    }

    static ProtocolFamily family(InetAddress address) {
        return address instanceof Inet6Address ? StandardProtocolFamily.INET6 : StandardProtocolFamily.INET;
    }

    /** Closes a channel or a selector, which must not be used any more. */
    static void close(AutoCloseable resource) {
        try {
            resource.close();
        } catch (Exception e) {
            LOG.log(Level.DEBUG, "cannot close {0}: {1}", resource, e.getMessage());
        }
    }

    /** Sets the options of a connection. */
    void configure(SocketChannel channel) throws IOException {
        channel.configureBlocking(false);
        channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
        if (settings.sendBuffer() > 0) {
            channel.setOption(StandardSocketOptions.SO_SNDBUF, settings.sendBuffer());
        }
        if (settings.receiveBuffer() > 0) {
            channel.setOption(StandardSocketOptions.SO_RCVBUF, settings.receiveBuffer());
        }
    }

    /** Sets the options of a connection to a peer that has been established. */
    void established(SocketChannel channel) {
        congestion.choose(channel);
    }

    @Override
    public String address() {
        return address;
    }

    @Override
    public int maxMessageLength() {
        return MAX_MESSAGE;
    }

    @Override
    public Link open(String peer) {
        checkOpen();
        TcpLink link = new TcpLink(this, HostPort.parse(peer));
        links.add(link);
        return link;
    }

    /** Returns whether a peer runs on this machine, judging by its address. */
    private boolean isLocal(InetSocketAddress peer) {
        return peer.getAddress().isLoopbackAddress() || peer.getAddress().equals(settings.bind().getAddress());
    }

    @Override
    public boolean leavesHost(String peer) {
        return !settings.sharedMemory() || !isLocal(HostPort.parse(peer));
    }

    @Override
    public boolean sendsImmediately() {
        return true;
    }

    @Override
    public boolean sendsInPlace() {
        return true;
    }

    @Override
    public boolean opensImmediately(String peer) {
        return HostPort.isNumeric(peer);
    }

    @Override
    public int poll(Inbox to, int limit) {
        checkOpen();
        advanceClock();
        inbox = to;
        work = 0;
        polling = true;
        try {
            room = limit - gate.poll(nowNs, (limit + UNPROVEN_SHARE - 1) / UNPROVEN_SHARE);
            receiveDelayed();
            selector.selectNow(onReady);
            upkeep();
        } catch (IOException e) {
            throw new TransportException(Problem.UNAVAILABLE, "cannot poll sockets: " + e.getMessage(), "", e);
        } finally {
            polling = false;
            delivering = null;
        }
        work += tendLinks();
        return work;
    }

    /** Advances this wire's clock, which hardly moves while the process is stopped. */
    private void advanceClock() {
        long now = System.nanoTime();
        nowNs += Math.min(now - realNs, MAX_STEP_NS);
        realNs = now;
    }

    private void onReady(SelectionKey key) {
        if (key.attachment() instanceof InboundConnection connection) {
            work += connection.receive();
        } else if (key.attachment() instanceof TcpLink link) {
            work += link.onReady();
        } else if (key.attachment() instanceof Rail rail) {
            work += rail.onReady();
        }
    }

    /**
     * Continues with the connections behind the one that took the last room: each gets room after as many polls as
     * others wait for it, at the latest.
     */
    private void receiveDelayed() {
        for (int i = inbound.size(); i > 0 && room > 0 && !inbound.isEmpty(); i--) {
            turn = (turn + 1) % inbound.size();
            InboundConnection next = inbound.get(turn);
            if (next.isDelayed()) {
                work += next.receive();
            }
        }
    }

    private void upkeep() {
        if (nowNs < nextUpkeepNs) {
            return;
        }
        nextUpkeepNs = nowNs + UPKEEP_NS;
        for (InboundConnection each : List.copyOf(inbound)) {
            if (nowNs - each.lane().lastReadNs() > settings.silenceNs()) {
                each.close();
            }
        }
    }

    private int tendLinks() {
        int done = 0;
        for (int i = 0; i < links.size(); i++) {
            done += links.get(i).work(nowNs);
        }
        for (int i = closing.size() - 1; i >= 0; i--) {
            done += closing.get(i).work(nowNs);
            if (closing.get(i).isOver()) {
                closing.remove(i);
            }
        }
        return done;
    }

    /** Lets an unproven connection deliver up to a number of messages; returns how many of them it did not deliver. */
    int receive(InboundConnection unproven, int most) {
        room = most;
        unproven.receive(); // This is no work: a stranger's bytes are no reason to poll again at once.
        return room;
    }

    /** Returns whether this poll may deliver another message. */
    boolean hasRoom() {
        return room > 0;
    }

    /** Delivers a message that a connection has received. */
    void deliver(InboundConnection from, DirectBuffer buffer, int offset, int length) {
        room--;
        work++;
        delivering = from;
        inbox.onMessage(buffer, offset, length);
    }

    /** Delivers a message whose body was received in its place. */
    void deliver(InboundConnection from, DirectBuffer header, int headerLength, DirectBuffer body, int bodyLength) {
        room--;
        work++;
        delivering = from;
        inbox.onParts(header, 0, headerLength, body, 0, bodyLength);
    }

    /** Returns where the body of a message may be received, or {@code null}. */
    Inbox.@Nullable Place place(DirectBuffer header, int at, int headerLength, int bodyLength) {
        return inbox.place(header, at, headerLength, bodyLength);
    }

    @Override
    public void onProof() {
        InboundConnection proven = delivering;
        if (proven == null || proven.isProven() || proven.isClosed()) {
            return;
        }
        admit(proven);
        if (proven.asksForTicket() && !proven.isClosed()) {
            lanes.put(proven.lane().ticket(), proven.lane());
            proven.sendTicket();
        }
    }

    @Override
    public void onSignature() {
        InboundConnection from = delivering;
        if (from != null && !from.isProven() && !from.isClosed()) {
            gate.prefer(from);
        }
    }

    /** Takes a connection over from the gate: its peer is proven. */
    void admit(InboundConnection proven) {
        try {
            proven.prove();
            gate.release(proven);
            inbound.add(proven);
            proven.register(selector);
        } catch (IOException e) {
            proven.close();
        }
    }

    long newTicket() {
        return random.nextLong();
    }

    /** Returns the lane of a ticket, or {@code null}. */
    @Nullable Lane lane(long number) {
        return lanes.get(number);
    }

    ByteBuffer ticket(long number) {
        Unit.putTicket(new UnsafeBuffer(ticket), 0, number);
        return ticket.clear();
    }

    int connections() {
        return settings.connections();
    }

    /** Removes a connection that is closed. */
    void forget(InboundConnection connection) {
        lanes.remove(connection.lane().ticket());
        if (!inbound.remove(connection)) {
            gate.forget(connection);
        }
    }

    /** Removes a link that was closed; what it still has to send is sent by {@link #poll}. */
    void forget(TcpLink link) {
        if (links.remove(link)) {
            closing.add(link);
        }
    }

    /** Returns the number of connections whose peers are unproven. */
    int unproven() {
        return gate.size();
    }

    /** Returns the number of connections whose peers are proven. */
    int proven() {
        return inbound.size();
    }

    /** Returns whether more may arrive from the wire of a number. */
    boolean isConnectedFrom(long number) {
        for (int i = 0; i < inbound.size(); i++) {
            if (inbound.get(i).isFrom(number)) {
                return true;
            }
        }
        return false;
    }

    boolean isPolling() {
        return polling;
    }

    long nowNs() {
        return nowNs;
    }

    Selector selector() {
        return selector;
    }

    Buffers buffers() {
        return buffers;
    }

    ByteBuffer preamble() {
        return preamble.clear();
    }

    ByteBuffer reply() {
        return reply.clear();
    }

    ByteBuffer busy() {
        return busy.clear();
    }

    @Override
    public void pollingThreads(int threads) {
        backoff = Backoff.forThreads(threads);
    }

    @Override
    public void idle(long idleNs) {
        try {
            if (backoff.shouldSleep(idleNs)) {
                selector.select(IGNORED, 1);
                return;
            }
        } catch (IOException | ClosedSelectorException e) {
            LOG.log(Level.DEBUG, "cannot wait for sockets: {0}", e.getMessage());
        }
        backoff.pause(idleNs);
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        List.copyOf(links).forEach(TcpLink::close);
        boolean interrupted = false;
        long begin = System.nanoTime();
        while (tendLinks() >= 0 && !closing.isEmpty() && System.nanoTime() - begin < CLOSE_NS) {
            interrupted |= Thread.interrupted(); // Otherwise each pause would end at once.
            advanceClock();
            closing.forEach(TcpLink::retry);
            backoff.pause(System.nanoTime() - begin);
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        closed = true;
        closing.forEach(TcpLink::end);
        List.copyOf(inbound).forEach(InboundConnection::close);
        gate.close();
        close(selector);
        buffers.close();
    }

    private void checkOpen() {
        if (closed) {
            throw new TransportException(Problem.CLOSED, "the tcp wire is closed", "");
        }
    }
}
