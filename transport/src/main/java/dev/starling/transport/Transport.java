package dev.starling.transport;

import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.function.Predicate;
import org.agrona.DirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.Agent;

/**
 * Messages and one-sided writes between processes that share a secret. Nothing happens but in {@link #doWork}: whoever
 * owns a transport calls it often, and in turns if there are several, for it is used by one thread at a time.
 *
 * <pre>{@code
 * Transport transport = Transport.open(TransportConfig.of("aeron", secret));
 * transport.onMessage((from, buffer, offset, length) -> ...);
 * Endpoint peer = transport.connect(address, greeting);
 * transport.await(peer::isConnected, Duration.ofSeconds(5), "the peer");
 * peer.send(message, 0, length);
 * }</pre>
 *
 * <p>What may be expected (no peer yet, no room) is a return code; a peer that falls silent is lost after
 * {@link TransportConfig#silence}; every wait has a deadline. A stranger, a replay or a mangled frame is refused,
 * counted and logged, and disturbs nobody else.
 */
public final class Transport implements Agent, AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.transport");
    private static final int MESSAGES_AT_ONCE = 32;
    private static final int MAX_STRANGERS = 32;
    private static final int MAX_REFUSALS = 4;
    /** Of the silence that loses a peer, the share that a stranger has to prove himself while others wait. */
    private static final int PROOFS_IN_SILENCE = 10;
    /** Of the silence that loses a peer, the share that goodbyes may wait for room. */
    private static final int GOODBYES_IN_SILENCE = 20;
    private static final long LOG_EVERY_NS = TimeUnit.SECONDS.toNanos(5);
    private static final long UPKEEP_EVERY_NS = TimeUnit.MICROSECONDS.toNanos(200);

    final TransportCounters counters = new TransportCounters();
    final BodyChecksum bodies = new BodyChecksum();

    private final TransportConfig config;
    private final Wire wire;
    private final Long2ObjectHashMap<Endpoint> sessions = new Long2ObjectHashMap<>();
    private final Map<String, Endpoint> hellos = new HashMap<>();
    private final List<Endpoint> endpoints = new ArrayList<>();
    private final Long2ObjectHashMap<MemoryRegion> regions = new Long2ObjectHashMap<>();
    private final List<MemoryRegion> deferred = new ArrayList<>();
    private MessageHandler messages = (from, buffer, offset, length) -> { };
    private PutHandler puts = (from, immediate) -> { };
    private ConnectionHandler connections = new ConnectionHandler() { };
    private final Inbox inbox = this::take;
    private long regionCount;
    private long lastLogNs = Long.MIN_VALUE;
    private long nextUpkeepNs;
    private long now;
    private boolean closed;
    private long closedNs;

    private Transport(TransportConfig config, Wire wire) {
        this.config = config;
        this.wire = wire;
        now = wire.clock().nanoTime();
        nextUpkeepNs = now;
    }

    /**
     * Opens a transport over the wire that the configuration names.
     *
     * @throws TransportException if there is no such wire, it is not available here, or it cannot be opened; says why
     *     and what to do
     */
    public static Transport open(TransportConfig config) {
        WireProvider provider = providers().get(config.provider());
        if (provider == null) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "no transport is called "
                    + config.provider(), "there are " + String.join(", ", providers().keySet()));
        }
        if (provider.availability() instanceof WireProvider.Availability.Missing m) {
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "the transport " + config.provider()
                    + " cannot be used here: " + m.reason(), m.remedy());
        }
        return over(provider.open(config), config);
    }

    /** Opens a transport over a wire, which it then owns. */
    public static Transport over(Wire wire, TransportConfig config) {
        return new Transport(config, wire);
    }

    /** Returns the providers on the class path, by name. */
    public static Map<String, WireProvider> providers() {
        Map<String, WireProvider> found = new TreeMap<>(Comparator.naturalOrder());
        ServiceLoader.load(WireProvider.class, Transport.class.getClassLoader()).forEach(p -> found.put(p.name(), p));
        return found;
    }

    /** Returns how this was set up. */
    public TransportConfig config() {
        return config;
    }

    /** Returns where peers reach this. */
    public String address() {
        return wire.address();
    }

    /** Returns what was sent, received and refused. */
    public TransportCounters counters() {
        return counters;
    }

    /** Returns the time by the clock that this transport's deadlines are measured by. */
    public long nanoTime() {
        return wire.clock().nanoTime();
    }

    /** Returns the length in bytes of the longest message. */
    public int maxMessageLength() {
        return wire.maxMessageLength() - Frame.PUT_HEADER;
    }

    /** Sets who takes messages. */
    public void onMessage(MessageHandler handler) {
        messages = handler;
    }

    /** Sets who is told of puts that carry an immediate value. */
    public void onPut(PutHandler handler) {
        puts = handler;
    }

    /** Sets who is told of peers that come and go. */
    public void onConnection(ConnectionHandler handler) {
        connections = handler;
    }

    /**
     * Begins to connect to the transport at that address; goes on trying until the endpoint is closed.
     *
     * @param address as the peer's own {@link #address} says: another name of the same host is refused
     * @param greeting what the peer is told about this side, at most 4 KiB
     * @throws TransportException if the address is none, the greeting is too long, or this is closed
     */
    public Endpoint connect(String address, byte[] greeting) {
        checkOpen();
        if (greeting.length > Handshake.MAX_GREETING) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "a greeting has at most "
                    + Handshake.MAX_GREETING + " bytes, got " + greeting.length, "");
        }
        Endpoint endpoint = new Endpoint(this, wire.open(address), address, true, nanoTime());
        endpoint.greeting = greeting.clone();
        add(endpoint);
        return endpoint;
    }

    /**
     * Registers new, zeroed memory, which is this transport's and is given back when either is closed.
     *
     * @throws TransportException if there is no room, or this is closed
     */
    public MemoryRegion register(long bytes) {
        checkOpen();
        if (bytes < 0) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "bytes >= 0 must hold, got " + bytes, "");
        }
        MemoryRegion region = new MemoryRegion(this, ++regionCount, Handshake.randomLong(), bytes,
                config.sharedMemory() && wire.mapsMemory(), wire instanceof RemoteWrites writes ? writes : null);
        regions.put(regionCount, region);
        return region;
    }

    /** Takes what came, goes on with what is under way; returns the amount of work done, 0 if idle. */
    @Override
    public int doWork() {
        now = nanoTime();
        int work = wire.poll(inbox, MESSAGES_AT_ONCE);
        boolean upkeep = now >= nextUpkeepNs;
        if (upkeep) {
            nextUpkeepNs = now + UPKEEP_EVERY_NS;
        }
        for (int i = 0; i < endpoints.size(); i++) {
            Endpoint endpoint = endpoints.get(i);
            work += upkeep ? endpoint.doWork(now) : endpoint.isConnected() ? endpoint.puts.doWork() : 0;
        }
        return work;
    }

    @Override
    public String roleName() {
        return "starling-transport";
    }

    /**
     * Works until something holds.
     *
     * @param what is waited for, for the message
     * @throws TransportException if it does not hold in time
     */
    public void await(BooleanSupplier condition, Duration atMost, String what) {
        long begin = nanoTime();
        long lastWork = begin;
        while (!condition.getAsBoolean()) {
            lastWork = doWork() > 0 ? now : lastWork;
            if (now - begin > atMost.toNanos()) {
                throw new TransportException(TransportException.Problem.TIMED_OUT, "waited " + atMost + " for " + what,
                        "");
            }
            if (lastWork != now) {
                idle(now - lastWork);
            }
        }
    }

    /** Lets a moment pass in the way that suits the wire; a simulated one lets the others run. */
    public void idle(long idleNs) {
        wire.idle(idleNs);
    }

    private void take(DirectBuffer buffer, int offset, int length) {
        if (!Frame.isFrame(buffer, offset, length)) {
            counters.refusedFrames++;
            log("refused " + length + " bytes that are no frame of this version");
            return;
        }
        byte type = Frame.type(buffer, offset);
        if (type == Frame.HELLO) {
            takeHello(buffer, offset, length);
            return;
        }
        Endpoint endpoint = sessions.get(Frame.session(buffer, offset));
        if (endpoint == null) {
            counters.refusedSessions++;
            log("refused a frame of a session that is not open");
        } else if (endpoint.take(type, buffer, offset, length)) {
            counters.received++;
        }
    }

    private void takeHello(DirectBuffer buffer, int offset, int length) {
        Handshake.Hello hello = Frame.isWhole(bodies, buffer, offset, length, 0)
                ? Handshake.readHello(config.secret(), buffer, offset + Frame.HEADER, length - Frame.HEADER) : null;
        if (hello == null) {
            counters.refusedFrames++;
            log("refused a mangled HELLO");
            return;
        }
        Endpoint known = hellos.get(hello.who());
        if (known != null) {
            counters.refusedReplays += known.isConnected() ? 1 : 0;
            return;
        }
        if (!hello.proven()) {
            counters.refusedStrangers++;
            log("refused " + hello.address() + ": it does not know the cluster's secret");
            if (!wire.opensAtOnce(hello.address()) || count(Endpoint::isStranger) >= MAX_REFUSALS) {
                return;
            }
        } else if (!makeRoom()) {
            counters.refusedStrangers++;
            log("refused " + hello.address() + ": " + MAX_STRANGERS + " others have yet to prove who they are");
            return;
        }
        try {
            Endpoint endpoint = new Endpoint(this, wire.open(hello.address()), hello.address(), false, now);
            endpoint.hello = hello;
            endpoint.peerSession = hello.session();
            hellos.put(hello.who(), endpoint);
            add(endpoint);
            endpoint.doWork(now);
        } catch (TransportException e) {
            counters.refusedStrangers++;
            log("refused a HELLO: " + e.getMessage());
        }
    }

    /** Returns whether one more may begin to prove who it is. Whoever took long gives way, so that floods end. */
    private boolean makeRoom() {
        if (count(Endpoint::isUnproven) < MAX_STRANGERS) {
            return true;
        }
        Endpoint oldest = endpoints.stream().filter(Endpoint::isUnproven).findFirst().orElseThrow();
        if (now - oldest.createdNs() < config.silence().toNanos() / PROOFS_IN_SILENCE) {
            return false;
        }
        stranger(oldest, "did not prove who it is while many others wanted to");
        return true;
    }

    private long count(Predicate<Endpoint> which) {
        return endpoints.stream().filter(which).count();
    }

    private void add(Endpoint endpoint) {
        sessions.put(endpoint.ownSession, endpoint);
        endpoints.add(endpoint);
        nextUpkeepNs = now;
    }

    void forgetHello(Endpoint endpoint) {
        if (endpoint.hello != null) {
            hellos.remove(endpoint.hello.who(), endpoint);
        }
    }

    void accepted(Endpoint endpoint) {
        connections.accepted(endpoint);
    }

    void stranger(Endpoint endpoint, String what) {
        counters.refusedStrangers++;
        log("refused " + endpoint.address() + ": it " + what);
        endpoint.close();
    }

    void lost(Endpoint endpoint, boolean wasConnected) {
        if (wasConnected) {
            counters.lostPeers++;
            connections.lost(endpoint);
        }
    }

    boolean refuseProof(Endpoint endpoint) {
        counters.refusedStrangers++;
        log("refused a proof in the name of " + endpoint.address() + ": it does not know the cluster's secret");
        return false;
    }

    /** Counts a frame of a handshake that is past: a replay, or one more try of a peer that had to wait long. */
    boolean refuseLate() {
        counters.refusedReplays++;
        return false;
    }

    boolean refuseChecksum(Endpoint endpoint) {
        counters.refusedChecksums++;
        log("refused a frame in the name of " + endpoint.address() + ": its checksum does not fit");
        return false;
    }

    void refuseReplay(Endpoint endpoint, long sequence, long expected) {
        counters.refusedReplays++;
        log("refused frame " + sequence + " of " + endpoint.address() + ": " + expected + " is due");
    }

    void deliver(Endpoint from, DirectBuffer buffer, int offset, int length) {
        messages.onMessage(from, buffer, offset, length);
    }

    void told(Endpoint from, long immediate) {
        puts.onPut(from, immediate);
    }

    void remove(Endpoint endpoint) {
        sessions.remove(endpoint.ownSession);
        endpoints.remove(endpoint);
    }

    MemoryRegion region(long number) {
        return regions.get(number);
    }

    /** Returns whether there has been a region of that number. */
    boolean wasRegion(long number) {
        return number > 0 && number <= regionCount;
    }

    void forget(MemoryRegion region) {
        endpoints.forEach(e -> e.puts.cancel(region));
        regions.remove(region.key().region());
    }

    /** Remembers a closed region whose memory the wire is still reading. */
    void defer(MemoryRegion region) {
        deferred.add(region);
    }

    void undefer(MemoryRegion region) {
        deferred.remove(region);
    }

    Wire wire() {
        return wire;
    }

    /** Returns the time of the work under way. */
    long now() {
        return now;
    }

    int pieceLength() {
        return wire.bulkMessageLength() - Frame.PUT_HEADER;
    }

    private void log(String what) {
        if (now - lastLogNs > LOG_EVERY_NS || lastLogNs == Long.MIN_VALUE) {
            lastLogNs = now;
            LOG.log(Level.WARNING, "{0}: {1} ({2} refused so far)", address(), what, counters.refused());
        }
    }

    private void checkOpen() {
        if (closed) {
            throw new TransportException(TransportException.Problem.CLOSED, "the transport is closed", "open another");
        }
    }

    /** Waits a moment for room for a goodbye, while this is being closed; returns whether there is hope for it. */
    boolean waitsForRoom() {
        long waitedNs = wire.clock().nanoTime() - closedNs;
        if (!closed || waitedNs > config.silence().toNanos() / GOODBYES_IN_SILENCE) {
            return false;
        }
        // What comes now is for nobody, but it may be in the way of what goes.
        try {
            if (wire.poll((_, _, _) -> { }, MESSAGES_AT_ONCE) == 0) {
                wire.idle(waitedNs);
            }
            return true;
        } catch (TransportException e) {
            return false;
        }
    }

    /** Says goodbye to all peers, and gives back all memory and threads. */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            closedNs = wire.clock().nanoTime();
            List.copyOf(endpoints).forEach(Endpoint::close);
            List.copyOf(regions.values()).forEach(MemoryRegion::close);
            wire.close();
            deferred.forEach(MemoryRegion::free);
            deferred.clear();
        }
    }

    @Override
    public void onClose() {
        close();
    }
}
