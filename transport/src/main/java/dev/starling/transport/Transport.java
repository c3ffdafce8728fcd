package dev.starling.transport;

import dev.starling.errors.Durations;
import dev.starling.transport.frame.BodyChecksum;
import dev.starling.transport.frame.Frame;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.collections.Long2ObjectHashMap;
import org.agrona.concurrent.Agent;
import org.agrona.concurrent.CachedNanoClock;
import org.jspecify.annotations.Nullable;

/**
 * Messages and one-sided writes between processes that share a secret. All work happens inside {@link #doWork}, which
 * the owner of a transport calls often. Several threads may call it alternately, but only one thread may use a
 * transport at a time.
 *
 * <pre>{@code
 * Transport transport = Transport.open(TransportConfig.of("aeron", secret));
 * transport.onMessage((from, buffer, offset, length) -> ...);
 * Endpoint peer = transport.connect(address, greeting);
 * transport.await(peer::isConnected, Duration.ofSeconds(5), "the peer");
 * peer.send(message, 0, length);
 * }</pre>
 *
 * <p>Expected conditions (the peer is not reachable yet, there is no room) are return codes. A peer that is silent for
 * {@link TransportConfig#livenessTimeout} is lost, and every wait has a deadline. A stranger, a replay or a corrupted
 * frame is refused, counted and logged, and disturbs no other connection.
 */
public final class Transport implements Agent, AutoCloseable {
    private static final int MAX_MESSAGES_PER_POLL = 32;
    private static final int MAX_UNPROVEN = 32;
    private static final int MAX_PENDING_REFUSALS = 4;
    /** A refusal needs a link, of megabytes over Aeron, to an address that a stranger chooses. */
    private static final long REFUSAL_EVERY_NS = TimeUnit.SECONDS.toNanos(1);
    /**
     * When {@link #MAX_UNPROVEN} is reached, an unproven peer keeps its place for this fraction of the liveness
     * timeout.
     */
    private static final int PROOFS_PER_TIMEOUT = 10;
    /** Goodbyes may wait for room for this fraction of the liveness timeout. */
    private static final int GOODBYES_PER_TIMEOUT = 20;
    private static final long UPKEEP_EVERY_NS = TimeUnit.MICROSECONDS.toNanos(200);

    private final TransportConfig config;
    private final Wire wire;
    private final TransportCounters counters = new TransportCounters();
    private final CachedNanoClock clock = new CachedNanoClock();
    private final Refusals refusals;
    private final Regions regions = new Regions(this::cancelPuts);
    private final TransportContext context;
    private final Long2ObjectHashMap<Endpoint> endpointsBySession = new Long2ObjectHashMap<>();
    /** Endpoints of peers that began the connection, by the identity of the HELLO; not those that have ended. */
    private final Map<String, Endpoint> hellos = new HashMap<>();
    private final HelloQueue waiting = new HelloQueue();
    private final List<Endpoint> endpoints = new ArrayList<>();
    private final EndpointListener endings = new Endings(hellos, endpointsBySession, endpoints);
    private final Inbox inbox = new Frames();
    /** Number of HELLO frames received; those that send them are unproven. */
    private long greetings;
    private long nextUpkeepNs;
    private long nextRefusalNs;
    /** Whether {@link #doWork} is in progress: a handler that it calls may close this transport. */
    private boolean working;
    private boolean closed;
    private long closedNs;

    private Transport(TransportConfig config, Wire wire) {
        this.config = config;
        this.wire = wire;
        clock.update(wire.clock().nanoTime());
        refusals = new Refusals(counters, wire.address(), clock);
        context = new TransportContext(config, wire, clock, counters, refusals, regions, new BodyChecksum(),
                new FrameProtection.Buffers(), new FrameProtection.Buffers(), new Handlers(), new CachedNanoClock());
        nextUpkeepNs = clock.nanoTime();
        nextRefusalNs = nextUpkeepNs;
    }

    /**
     * Opens a transport over the wire that the configuration names.
     *
     * @throws TransportException if there is no such wire, if it is not available here, or if it cannot be opened; the
     *     message gives the reason and the remedy
     */
    public static Transport open(TransportConfig config) {
        String name = config.wireName();
        WireProvider provider = providers().get(name);
        if (provider == null) {
            throw new TransportException(TransportException.Problem.ARGUMENT, "unknown transport '" + name + "'",
                    "available: " + TransportConfig.AUTOMATIC + ", " + String.join(", ", providers().keySet()));
        }
        if (provider.availability() instanceof WireProvider.Availability.Missing m) {
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "the transport '" + name
                    + "' is not available on this machine: " + m.reason(), m.remedy());
        }
        return over(provider.open(config.wire()), config);
    }

    /** Opens a transport over a wire, and takes ownership of the wire. */
    public static Transport over(Wire wire, TransportConfig config) {
        return new Transport(config, wire);
    }

    /**
     * Opens another transport of this process, with the same configuration, at any free port.
     *
     * @throws TransportException if it cannot be opened
     */
    public Transport another() {
        TransportConfig other = config.at(config.host(), 0);
        return wire.another().map(opened -> over(opened, other)).orElseGet(() -> open(other));
    }

    /** Returns the providers on the class path, by name. */
    public static Map<String, WireProvider> providers() {
        Map<String, WireProvider> found = new TreeMap<>(Comparator.naturalOrder());
        ServiceLoader.load(WireProvider.class, Transport.class.getClassLoader()).forEach(p -> found.put(p.name(), p));
        return found;
    }

    /** Returns the configuration. */
    public TransportConfig config() {
        return config;
    }

    /** Returns the address at which peers reach this transport. */
    public String address() {
        return wire.address();
    }

    /** Returns the counters of what was sent, received and refused. */
    public TransportCounters counters() {
        return counters;
    }

    /** Returns the time of the clock by which this transport measures deadlines. */
    public long nanoTime() {
        return wire.clock().nanoTime();
    }

    /** Returns the length in bytes of the longest message. */
    public int maxMessageLength() {
        return context.maxMessageLength();
    }

    /** Sets the handler that receives messages. */
    public void onMessage(MessageHandler handler) {
        context.handlers().messages = handler;
    }

    /** Sets the handler that is notified of puts with an immediate value. */
    public void onPut(PutHandler handler) {
        context.handlers().puts = handler;
    }

    /** Sets the handler that is notified of connects and disconnects. */
    public void onConnection(ConnectionHandler handler) {
        context.handlers().connections = handler;
    }

    /**
     * Begins to connect to the transport at an address, and retries until the endpoint is closed.
     *
     * @param address exactly as the peer's own {@link #address} returns it: another name of the same host is refused
     * @param greeting bytes that the peer receives with the connection, at most 4 KiB
     * @throws TransportException if the address is malformed, the greeting is too long, or this transport is closed
     */
    public Endpoint connect(String address, byte[] greeting) {
        checkOpen();
        TransportException.require(greeting.length <= Authentication.MAX_GREETING, "a greeting must have at most "
                + Authentication.MAX_GREETING + " bytes, got " + greeting.length, "");
        Endpoint endpoint = Endpoint.connect(context, endings, wire.open(address), address, greeting.clone(),
                nanoTime());
        add(endpoint);
        return endpoint;
    }

    /**
     * Registers new, zeroed memory. This transport owns it; closing either of the two releases the memory, as {@link
     * MemoryRegion#close} describes.
     *
     * @throws TransportException if memory is exhausted, or this transport is closed
     */
    public MemoryRegion register(long bytes) {
        checkOpen();
        return register(allocate(bytes));
    }

    /**
     * As {@link #register(long)}; pages of memory to which nothing is written take no memory, where the system can do
     * so.
     */
    public MemoryRegion registerSparse(long bytes) {
        checkOpen();
        return register(allocate(bytes, true));
    }

    /**
     * Allocates zeroed memory for {@link #register(AllocatedMemory)}, to which the caller must pass it. Any thread may
     * call this, also while another one uses this transport: no peer is to miss heartbeats for as long as it takes.
     *
     * @throws TransportException if memory is exhausted
     */
    public AllocatedMemory allocate(long bytes) {
        return allocate(bytes, false);
    }

    private AllocatedMemory allocate(long bytes, boolean sparse) {
        TransportException.require(bytes >= 0, "bytes >= 0 must hold, got " + bytes, "");
        return AllocatedMemory.of(bytes, sparse, context.mapsMemory());
    }

    /** As {@link #register(long)}, with memory that has been allocated; frees it if this throws. */
    public MemoryRegion register(AllocatedMemory memory) {
        if (closed) {
            memory.free();
        }
        checkOpen();
        return regions.register(memory, wire.remoteWrites());
    }

    /** Receives what has arrived and continues pending work; returns the amount of work done, 0 if idle. */
    @Override
    public int doWork() {
        boolean isNested = working;
        boolean wasOpen = !closed;
        working = true;
        // Java closes files that an interrupted thread maps or writes, which Aeron does for each new link.
        boolean interrupted = Thread.interrupted();
        try {
            long now = nanoTime();
            context.begin(now);
            // Frames of strangers are no reason to poll again at once: they would keep threads from idling.
            long refused = counters.refused() + greetings;
            int polled = wire.poll(inbox, MAX_MESSAGES_PER_POLL);
            int work = (int) Math.max(0, polled - (counters.refused() + greetings - refused));
            answerWaiting();
            boolean upkeep = now - nextUpkeepNs >= 0;
            nextUpkeepNs = upkeep ? now + UPKEEP_EVERY_NS : nextUpkeepNs;
            for (int i = 0; i < endpoints.size() && !closed; i++) {
                Endpoint endpoint = endpoints.get(i);
                work += upkeep ? endpoint.doWork(now) : endpoint.isConnected() ? endpoint.puts.doWork() : 0;
            }
            return work;
        } finally {
            working = isNested;
            if (!isNested && wasOpen && closed) {
                release();
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Sends what was accepted before, as far as there is room; returns the amount of work done. */
    public int flush() {
        return wire.sendsImmediately() ? 0 : doWork();
    }

    @Override
    public String roleName() {
        return "starling-transport";
    }

    /**
     * Works until a condition holds.
     *
     * @param timeout maximum duration of the wait
     * @param what the condition, as it appears in the exception's message
     * @throws TransportException if the condition does not hold in time
     */
    public void await(BooleanSupplier condition, Duration timeout, String what) {
        long begin = nanoTime();
        long lastWork = begin;
        while (!condition.getAsBoolean()) {
            boolean worked = doWork() > 0;
            long now = clock.nanoTime();
            lastWork = worked ? now : lastWork;
            if (now - begin > TimeUnit.NANOSECONDS.convert(timeout)) {
                throw new TransportException(TransportException.Problem.TIMED_OUT, "waited "
                        + Durations.text(timeout) + " for " + what, "");
            }
            if (lastWork != now) {
                idle(now - lastWork);
            }
        }
    }

    /** Lets a moment pass in the way that suits the wire; a simulated wire lets other processes run. */
    public void idle(long idleNs) {
        boolean interrupted = Thread.interrupted();
        if (interrupted) {
            // An interrupt ends the next park, too; otherwise each wait of an interrupted thread would end at once.
            LockSupport.parkNanos(1);
        }
        try {
            wire.idle(idleNs);
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /**
     * Sets how many threads of this machine exchange messages at the same time, this process's included; the default is
     * 1. If each has a processor, {@link #idle} spins before it yields. A group sets the number of its members on this
     * host.
     */
    public void pollingThreads(int threads) {
        wire.pollingThreads(threads);
    }

    /** Finds the endpoint of each frame. */
    private final class Frames implements Inbox {
        @Override
        public void onMessage(DirectBuffer buffer, int offset, int length) {
            if (!Frame.isFrame(buffer, offset, length)) {
                refusals.malformed(length + " bytes that are not a frame of this version");
            } else if (Frame.type(buffer, offset) == Frame.HELLO) {
                long refused = counters.refused();
                onHello(buffer, offset, length);
                greetings += counters.refused() == refused ? 1 : 0;
            } else {
                int head = Frame.headLength(Frame.type(buffer, offset));
                onFrame(buffer, offset, buffer, offset + head, length - head);
            }
        }

        @Override
        public @Nullable Place place(DirectBuffer header, int headerOffset, int headerLength, int bodyLength) {
            if (headerLength != Frame.PUT_HEADER || Frame.type(header, headerOffset) != Frame.PUT
                    || !Frame.isFrame(header, headerOffset, headerLength + bodyLength)) {
                return null;
            }
            Endpoint endpoint = endpointsBySession.get(Frame.session(header, headerOffset));
            return endpoint == null ? null : endpoint.place(header, headerOffset, bodyLength);
        }

        @Override
        public void onParts(DirectBuffer header, int headerOffset, int headerLength, DirectBuffer body, int bodyOffset,
                int bodyLength) {
            if (headerLength == Frame.PUT_HEADER && Frame.type(header, headerOffset) == Frame.PUT
                    && Frame.isFrame(header, headerOffset, headerLength + bodyLength)) {
                onFrame(header, headerOffset, body, bodyOffset, bodyLength);
            } else {
                refusals.malformed(headerLength + bodyLength + " bytes in two parts that are not a put");
            }
        }
    }

    private void onFrame(DirectBuffer head, int at, DirectBuffer body, int bodyOffset, int bodyLength) {
        Endpoint endpoint = endpointsBySession.get(Frame.session(head, at));
        if (endpoint == null) {
            refusals.unknownSession();
        } else if (!closed && endpoint.receive(head, at, body, bodyOffset, bodyLength)) {
            counters.received++;
            if (endpoint.handshake.isProven()) {
                wire.onProof();
            }
        }
    }

    private void onHello(DirectBuffer buffer, int offset, int length) {
        Authentication.Hello hello = Frame.isSealed(context.bodies(), buffer, offset, length, 0)
                ? Authentication.readHello(config.secret(), buffer, offset + Frame.HEADER, length - Frame.HEADER)
                : null;
        if (hello == null) {
            refusals.malformed("a malformed HELLO");
            return;
        }
        Endpoint known = hellos.get(hello.identity());
        if (known != null && known.isConnected()) {
            refusals.late();
            return;
        }
        if (hello.proven()) {
            wire.onSignature();
        }
        if (known != null) {
            return;
        }
        if (!hello.proven()) {
            refusals.stranger(hello.address(), "it has a different secret");
            if (!wire.opensImmediately(hello.address())
                    || in(Handshake.State.REFUSING).count() >= MAX_PENDING_REFUSALS
                    || clock.nanoTime() - nextRefusalNs < 0) {
                return;
            }
            nextRefusalNs = clock.nanoTime() + REFUSAL_EVERY_NS;
        } else if (!waiting.isEmpty() || !makeRoom()) {
            if (!waiting.add(hello, clock.nanoTime())) {
                refusals.stranger(hello.address(), HelloQueue.MAX
                        + " other processes have yet to prove that they have the secret");
            }
            return;
        }
        answer(hello);
    }

    /** Continues with processes that had to wait, as far as others have proven that they have the secret. */
    private void answerWaiting() {
        while (!waiting.isEmpty() && makeRoom()) {
            Authentication.Hello next = waiting.next(clock.nanoTime());
            if (next != null && !hellos.containsKey(next.identity())) {
                answer(next);
            }
        }
    }

    private void answer(Authentication.Hello hello) {
        try {
            long now = clock.nanoTime();
            Endpoint endpoint = Endpoint.answer(context, endings, wire.answer(hello.address()), hello, now);
            hellos.put(hello.identity(), endpoint);
            add(endpoint);
            endpoint.doWork(now);
        } catch (TransportException e) {
            refusals.stranger("a HELLO", String.valueOf(e.getMessage()));
        }
    }

    /**
     * Returns whether one more peer may begin a handshake. When too many peers are unproven, the oldest is closed if it
     * has had its time, so that a flood of strangers ends.
     */
    private boolean makeRoom() {
        if (endpoints.size() < MAX_UNPROVEN || in(Handshake.State.CHALLENGING).count() < MAX_UNPROVEN) {
            return true;
        }
        Endpoint oldest = in(Handshake.State.CHALLENGING).findFirst().orElseThrow();
        if (clock.nanoTime() - oldest.handshake.beganNs() < context.livenessTimeoutNs() / PROOFS_PER_TIMEOUT) {
            return false;
        }
        oldest.handshake.giveUp("it did not prove that it has the secret while many others waited");
        oldest.close();
        return true;
    }

    private Stream<Endpoint> in(Handshake.State state) {
        return endpoints.stream().filter(e -> e.handshake.state() == state);
    }

    private void add(Endpoint endpoint) {
        endpointsBySession.put(endpoint.session(), endpoint);
        endpoints.add(endpoint);
        nextUpkeepNs = clock.nanoTime();
    }

    private void cancelPuts(MemoryRegion source, List<Runnable> ended) {
        endpoints.forEach(e -> e.puts.cancel(source, ended));
    }

    private void checkOpen() {
        if (closed) {
            throw new TransportException(TransportException.Problem.CLOSED, "the transport is closed", "open another");
        }
    }

    /** Waits a moment for room for a goodbye; returns false when the time for that is up. */
    private boolean waitsForRoom() {
        long waitedNs = wire.clock().nanoTime() - closedNs;
        if (waitedNs > context.livenessTimeoutNs() / GOODBYES_PER_TIMEOUT) {
            return false;
        }
        // Arriving frames have no receiver any more, but they may block the outgoing ones.
        try {
            if (wire.poll((_, _, _) -> { }, MAX_MESSAGES_PER_POLL) == 0) {
                idle(waitedNs);
            }
            return true;
        } catch (TransportException e) {
            return false;
        }
    }

    /**
     * Sends a goodbye to all peers and releases all memory and threads. If a handler calls this within {@link #doWork},
     * no handler is called for what arrives later, and the rest happens before {@code doWork} returns.
     */
    @Override
    public void close() {
        if (!closed) {
            closed = true;
            if (!working) {
                release();
            }
        }
    }

    private void release() {
        closedNs = wire.clock().nanoTime();
        try (wire) {
            Callbacks.runAll(endpoints.stream().<Runnable>map(e -> () -> e.close(this::waitsForRoom)).toList());
            regions.close();
        } finally {
            regions.free();
        }
    }

    @Override
    public void onClose() {
        close();
    }
}
