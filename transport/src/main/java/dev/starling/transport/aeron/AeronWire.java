package dev.starling.transport.aeron;

import dev.starling.errors.OpenFiles;
import dev.starling.transport.TransportException;
import dev.starling.transport.TransportException.Problem;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.Backoff;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import io.aeron.Aeron;
import io.aeron.AeronCounters;
import io.aeron.CncFileDescriptor;
import io.aeron.Image;
import io.aeron.Subscription;
import io.aeron.exceptions.AeronException;
import io.aeron.logbuffer.Header;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.BindException;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.SocketException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.agrona.DirectBuffer;
import org.agrona.LangUtil;
import org.agrona.collections.IntHashSet;
import org.agrona.collections.LongArrayList;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.EpochClock;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.status.CountersReader;
import org.jspecify.annotations.Nullable;

/**
 * A wire over Aeron. Each wire has its own media driver, so that the death of one process affects no other, and two
 * subscriptions: to UDP at its address, and to a stream within the host. A peer on the same host finds the announcement
 * of that stream and writes straight into the memory of this wire's driver, as a second client of it.
 */
final class AeronWire implements Wire {
    static final System.Logger LOG = System.getLogger("dev.starling.transport.aeron");

    private static final int UDP_STREAM = 1001;
    /** Interval at which the driver and the clients are driven while nothing travels over the network. */
    private static final long UPKEEP_NS = TimeUnit.MICROSECONDS.toNanos(20);
    private static final long MIN_PROBE_NS = TimeUnit.MILLISECONDS.toNanos(50);
    /** The checks that peers run take some 30 µs each: about 1 % of a processor in all, however many there are. */
    private static final long PROBE_PER_LINK_NS = TimeUnit.MILLISECONDS.toNanos(3);
    private static final long MAX_STEP_NS = TimeUnit.SECONDS.toNanos(1);
    private static final long GOODBYE_NS = TimeUnit.MILLISECONDS.toNanos(25);
    private static final long START_NS = TimeUnit.SECONDS.toNanos(10);
    /** A driver with threads of its own may deliver data this much later than the news that their sender left. */
    private static final long SETTLE_NS = TimeUnit.MILLISECONDS.toNanos(5);
    /** Number of complete polls that drain a stream: one poll may have stopped at the end of a term. */
    private static final int DRAINS = 2;
    /** A peer's process may be stopped for long; its file lock shows whether it has ended. */
    private static final long DRIVER_TIMEOUT_MS = TimeUnit.HOURS.toMillis(1);

    private final AeronSettings settings;
    private final WireDirectory directory;
    /** {@code null} if the driver runs elsewhere. */
    private @Nullable AeronDriver driver;
    // Set by start, as far as that comes: a wire that did not start is only closed.
    @SuppressWarnings("NullAway.Init")
    private Aeron client;
    @SuppressWarnings("NullAway.Init")
    private Subscription local;
    @SuppressWarnings("NullAway.Init")
    private Subscription network;
    @SuppressWarnings("NullAway.Init")
    private String address;

    private final SecureRandom random = new SecureRandom();
    private final List<AeronLink> links = new ArrayList<>();
    /**
     * How many links there were at the same time, without those that answer processes which are not proven; read by the
     * driver, which may have threads of its own.
     */
    private volatile int maxLinks;
    private volatile long lastPolledNs = System.nanoTime();
    private final LongArrayList unflushed = new LongArrayList();
    /** Set by each poll. */
    @SuppressWarnings("NullAway.Init")
    private Inbox inbox;
    private final Assembler localMessages =
            new Assembler((buffer, offset, length, header) -> inbox.onMessage(buffer, offset, length));
    private final Assembler networkMessages = new Assembler(this::onNetworkMessage);
    /** Sessions of senders over the network that are proven, and those of which the driver has not heard yet. */
    private final IntHashSet proven = new IntHashSet();
    private final Queue<Integer> proofs = new ConcurrentLinkedQueue<>();
    private boolean delivers;
    private int deliveredSession;
    private Backoff backoff = Backoff.forThreads(1);
    private long nextUpkeepNs = System.nanoTime();
    private long drains;
    private boolean networked;
    private boolean localFirst;
    private boolean closed;

    private AeronWire(AeronSettings settings, WireDirectory directory) {
        this.settings = settings;
        this.directory = directory;
    }

    static AeronWire open(WireConfig config) {
        AeronSettings settings = AeronSettings.of(config);
        if (settings.isSocketBufferSmall()) {
            LOG.log(Level.INFO, "socket buffers are limited to {0} bytes, a fast network needs 4194304; run: sysctl -w "
                    + "net.core.rmem_max=4194304 net.core.wmem_max=4194304", Integer.toString(settings.socketBuffer()));
        }
        InetSocketAddress endpoint = HostPort.resolve(config.host(), config.port());
        checkFree(endpoint);
        WireDirectory.sweep(settings.base());
        return Uninterrupted.call(() -> open(settings, config.host(), endpoint));
    }

    private static AeronWire open(AeronSettings settings, String host, InetSocketAddress endpoint) {
        AeronWire wire = new AeronWire(settings, WireDirectory.create(settings.base()));
        try {
            wire.start(host, endpoint);
            return wire;
        } catch (RuntimeException | Error e) {
            try {
                wire.close();
            } catch (RuntimeException remains) {
                e.addSuppressed(remains);
            }
            throw e;
        }
    }

    private void start(String host, InetSocketAddress endpoint) {
        Path driverDirectory = settings.driver();
        if (driverDirectory == null) {
            driverDirectory = directory.driver();
            AeronSettings.requireRoom(settings.base(), AeronDriver.BYTES + settings.linkBytes(),
                    "a media driver with its first link");
            driver = AeronDriver.start(null, driverDirectory, settings.threads(), settings.livenessNs(),
                    settings.imageLivenessNs(), (channel, dispatcher, status, context) -> new Admission(channel,
                            dispatcher, status, context, settings, () -> maxLinks, () -> lastPolledNs, proofs));
        } else if (DriverClock.of(driverDirectory, TimeUnit.SECONDS.toMillis(10)) == null) {
            throw new TransportException(Problem.UNAVAILABLE, "no media driver runs in " + driverDirectory,
                    "start one there (dev.starling.transport.aeron.AeronDriver), or omit the option driver");
        }
        try {
            client = connect(driverDirectory, driver == null ? null : driver.invoker(), ownClock());
            int stream = ThreadLocalRandom.current().nextInt(1, Integer.MAX_VALUE);
            local = client.addSubscription("aeron:ipc", stream, image -> { },
                    image -> localMessages.forget(image.sessionId()));
            if (endpoint.getPort() != 0) {
                announce(endpoint, stream); // Before waiting peers can find this wire on the network.
            }
            network = client.addSubscription("aeron:udp?endpoint=" + HostPort.format(endpoint) + "|so-rcvbuf="
                    + settings.socketBuffer() + "|so-sndbuf=" + settings.socketBuffer() + "|rcv-wnd="
                    + settings.window(), UDP_STREAM, image -> { },
                    image -> forget(image.sessionId()));
            String resolved = awaitEndpoint();
            int port = Integer.parseInt(resolved.substring(resolved.lastIndexOf(':') + 1));
            address = HostPort.format(host, port);
            if (endpoint.getPort() == 0) {
                announce(new InetSocketAddress(endpoint.getAddress(), port), stream);
            }
        } catch (AeronException e) {
            if (String.valueOf(e.getMessage()).contains("already in use")) {
                throw HostPort.unbound(endpoint, e, ""); // By another process that began to listen after the check.
            }
            throw new TransportException(Problem.UNAVAILABLE, "Aeron cannot listen at " + HostPort.format(endpoint)
                    + ": " + e.getMessage(), OpenFiles.remedy(e, "choose another host or port, or 0 for any"), e);
        }
    }

    private void announce(InetSocketAddress endpoint, int stream) {
        if (settings.ipc()) {
            directory.announce(key(endpoint), Path.of(client.context().aeronDirectoryName()), stream);
        }
    }

    private String awaitEndpoint() {
        long deadline = System.nanoTime() + START_NS;
        String resolved;
        while ((resolved = network.resolvedEndpoint()) == null) {
            if (System.nanoTime() - deadline > 0) {
                throw new TransportException(Problem.TIMED_OUT, "the media driver did not open a socket in time", "");
            }
            drive();
            Thread.yield();
        }
        return resolved;
    }

    /** Connects to the driver in a directory; {@code invoker} drives it if it is this wire's own. */
    Aeron connect(Path driverDirectory, @Nullable AgentInvoker invoker, NanoClock clock) {
        EpochClock epoch = DriverClock.of(driverDirectory, DRIVER_TIMEOUT_MS);
        if (epoch == null) {
            throw new AeronException("no media driver runs in " + driverDirectory);
        }
        Path present = driverDirectory.resolve(CncFileDescriptor.CNC_FILE);
        boolean[] connected = new boolean[1];
        Aeron opened = Aeron.connect(Uninterrupted.mapsTerms(new Aeron.Context())
                .aeronDirectoryName(driverDirectory.toString())
                .useConductorAgentInvoker(true)
                .driverAgentInvoker(invoker)
                .nanoClock(clock)
                .epochClock(() -> {
                    // Aeron would wait for a driver that has left as long as for one that is stopped.
                    if (!connected[0] && !Files.exists(present)) {
                        throw new AeronException("no media driver runs in " + driverDirectory);
                    }
                    return epoch.time();
                })
                .driverTimeoutMs(DRIVER_TIMEOUT_MS)
                .closeLingerDurationNs(0)
                .errorHandler(e -> LOG.log(Level.DEBUG, "Aeron: {0}", e.getMessage()))
                .subscriberErrorHandler(LangUtil::rethrowUnchecked));
        connected[0] = true;
        return opened;
    }

    /** A clock that stops while this process is stopped; otherwise the client would give itself up after resuming. */
    private static NanoClock ownClock() {
        return new NanoClock() {
            private long real = System.nanoTime();
            private long own;

            @Override
            public long nanoTime() {
                long now = System.nanoTime();
                own += Math.min(now - real, MAX_STEP_NS);
                real = now;
                return own;
            }
        };
    }

    private void onNetworkMessage(DirectBuffer buffer, int offset, int length, Header header) {
        deliveredSession = ((Image) header.context()).sessionId();
        delivers = driver != null;
        try {
            inbox.onMessage(buffer, offset, length);
        } finally {
            delivers = false;
        }
    }

    @Override
    public void onProof() {
        if (delivers && proven.add(deliveredSession)) {
            proofs.add(deliveredSession);
        }
    }

    private void forget(int session) {
        networkMessages.forget(session);
        proven.remove(session);
    }

    @Override
    public String address() {
        return address;
    }

    @Override
    public int maxMessageLength() {
        return settings.maxMessageLength();
    }

    @Override
    public int bulkMessageLength() {
        return settings.bulkMessageLength();
    }

    @Override
    public Link open(String peer) {
        Link link = answer(peer);
        link.onProof();
        return link;
    }

    @Override
    public Link answer(String peer) {
        checkOpen();
        InetSocketAddress endpoint = HostPort.parse(peer);
        AeronLink link = new AeronLink(this, HostPort.format(endpoint), settings.ipc() ? key(endpoint) : null);
        links.add(link);
        nextUpkeepNs = System.nanoTime();
        return link;
    }

    /** Notes that one more link is to a member, or is to reach one. */
    void onMember() {
        maxLinks = Math.max(maxLinks, (int) links.stream().filter(AeronLink::isToMember).count());
    }

    @Override
    public boolean opensImmediately(String peer) {
        return HostPort.isNumeric(peer);
    }

    @Override
    public boolean leavesHost(String peer) {
        InetAddress at = HostPort.parse(peer).getAddress();
        return !settings.ipc() || !at.isLoopbackAddress() && !at.equals(HostPort.parse(address).getAddress());
    }

    @Override
    public int poll(Inbox to, int limit) {
        checkOpen();
        inbox = to;
        int work = 0;
        long now = System.nanoTime();
        boolean upkeep = now - nextUpkeepNs >= 0;
        if (upkeep) {
            nextUpkeepNs = now + UPKEEP_NS;
            lastPolledNs = now;
            Uninterrupted.invoke(client);
            if (client.isClosed()) {
                throw new TransportException(Problem.CLOSED, "the media driver in "
                        + client.context().aeronDirectoryName() + " is gone", "start it again, and this process");
            }
            networked = false;
            for (int i = 0; i < links.size(); i++) {
                work += links.get(i).upkeep(now);
                networked |= links.get(i).isNetworked();
            }
            work += driveDriver();
        } else if (networked) {
            work += driveDriver();
        }
        // In turn: what arrives on one of the two without end must not keep the other out.
        localFirst = !localFirst;
        int received = receive(localFirst, limit);
        if (received < limit) {
            received += receive(!localFirst, limit - received);
        }
        drains += upkeep && received < limit ? 1 : 0;
        return work + received;
    }

    private int receive(boolean locally, int limit) {
        return locally ? local.poll(localMessages, limit) : network.poll(networkMessages, limit);
    }

    /** Returns the interval at which a link checks that a peer on this host still runs. */
    long probeNs() {
        return Math.max(MIN_PROBE_NS, links.size() * PROBE_PER_LINK_NS);
    }

    /** Returns how often a poll delivered everything that had arrived. */
    long drains() {
        return drains;
    }

    /** Returns whether everything is delivered that a peer sent which was found to be gone at a given time. */
    boolean hasDrained(long disconnectedNs, long drainsThen) {
        return drains >= drainsThen + DRAINS && System.nanoTime() - disconnectedNs > SETTLE_NS;
    }

    /**
     * Drives the driver. Returns 1 only if it moved data, because its housekeeping always reports some work, and if a
     * link uses the network: other data are those of processes that are not proven.
     */
    private int driveDriver() {
        return driver != null && driver.doWork() >= AeronSettings.HEADER && networked ? 1 : 0;
    }

    private void drive() {
        Uninterrupted.invoke(client);
        driveDriver();
    }

    @Override
    public void pollingThreads(int threads) {
        backoff = Backoff.forThreads(threads);
    }

    @Override
    public void idle(long idleNs) {
        backoff.pause(idleNs);
    }

    AeronSettings settings() {
        return settings;
    }

    Aeron client() {
        return client;
    }

    /** Removes a closed link; if it used the network, its last messages are still being sent. */
    void forget(AeronLink link, long registration) {
        links.remove(link);
        if (registration != Aeron.NULL_VALUE) {
            unflushed.addLong(registration);
        }
    }

    String networkChannel(String endpoint) {
        // Aeron's own numbers follow one another: a stranger to which a refusal was sent would know those of others.
        return "aeron:udp?endpoint=" + endpoint + "|session-id=" + random.nextInt() + "|mtu=" + settings.mtu()
                + "|term-length=" + settings.term() + "|so-sndbuf=" + settings.socketBuffer() + "|so-rcvbuf="
                + settings.socketBuffer();
    }

    String localChannel() {
        return "aeron:ipc?mtu=" + AeronSettings.MAX_MTU + "|term-length=" + settings.ipcTerm();
    }

    static int networkStream() {
        return UDP_STREAM;
    }

    private static void checkFree(InetSocketAddress endpoint) {
        try (DatagramSocket probe = new DatagramSocket(null)) {
            probe.bind(endpoint);
        } catch (BindException e) {
            throw HostPort.unbound(endpoint, e, "use one at which peers reach it");
        } catch (SocketException e) {
            throw new TransportException(Problem.ARGUMENT, "cannot listen at " + HostPort.format(endpoint) + ": " + e,
                    OpenFiles.remedy(e, ""), e);
        }
    }

    /**
     * The key includes the network namespace, because the same address belongs to another wire in another namespace.
     */
    private static String key(InetSocketAddress endpoint) {
        String namespace = "";
        try {
            namespace = Files.readSymbolicLink(Path.of("/proc/self/ns/net")).toString();
        } catch (IOException | UnsupportedOperationException e) {
            LOG.log(Level.DEBUG, "no network namespaces here: {0}", e.toString());
        }
        return namespace + ' ' + HostPort.format(endpoint);
    }

    private void checkOpen() {
        if (closed) {
            throw new TransportException(Problem.CLOSED, "the wire is closed", "open another");
        }
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        closed = true;
        AeronDriver own = driver;
        try (directory; own) {
            if (client != null && !client.isClosed()) {
                List.copyOf(links).forEach(AeronLink::close);
                flush();
                sendGoodbye();
                client.close();
            }
        }
    }

    /** Waits, for a limited time, until peers have received what was sent to them over the network. */
    private void flush() {
        long deadline = System.nanoTime() + settings.linger().toNanos();
        CountersReader counters = client.countersReader();
        while (!unflushed.isEmpty() && System.nanoTime() - deadline < 0) {
            drive();
            long registration = unflushed.getLong(0);
            if (counters.findByTypeIdAndRegistrationId(AeronCounters.DRIVER_SENDER_POSITION_TYPE_ID, registration)
                    == CountersReader.NULL_COUNTER_ID) {
                unflushed.removeAt(0);
            } else {
                Thread.yield();
            }
        }
    }

    /** Notifies peers of the close, so that they need not wait for their timeout. */
    private void sendGoodbye() {
        boolean hasSenders = network != null && network.imageCount() > 0;
        if (network != null) {
            network.close();
        }
        if (local != null) {
            local.close();
        }
        long deadline = System.nanoTime() + (hasSenders ? GOODBYE_NS : 0);
        do {
            drive();
        } while (System.nanoTime() - deadline < 0);
    }
}
