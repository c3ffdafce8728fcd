package dev.starling.transport.ucx;

import dev.starling.transport.TransportException;
import dev.starling.transport.address.HostPort;
import dev.starling.transport.spi.Backoff;
import dev.starling.transport.spi.Inbox;
import dev.starling.transport.spi.Link;
import dev.starling.transport.spi.RemoteWrites;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireConfig;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Queue;
import java.util.Set;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpConnectionRequest;
import org.openucx.jucx.ucp.UcpConstants;
import org.openucx.jucx.ucp.UcpContext;
import org.openucx.jucx.ucp.UcpEndpoint;
import org.openucx.jucx.ucp.UcpEndpointParams;
import org.openucx.jucx.ucp.UcpListener;
import org.openucx.jucx.ucp.UcpListenerParams;
import org.openucx.jucx.ucp.UcpParams;
import org.openucx.jucx.ucp.UcpRequest;
import org.openucx.jucx.ucp.UcpRequestParams;
import org.openucx.jucx.ucp.UcpWorker;
import org.openucx.jucx.ucp.UcpWorkerParams;
import org.openucx.jucx.ucs.UcsConstants;

/** A UCX worker with a listener. Messages are active messages, sent eagerly, over whichever network UCX prefers. */
final class UcxWire implements Wire, RemoteWrites {
    /** Passed with each request, so that UCX need not look up the kind of memory. */
    static final UcpRequestParams HOST_MEMORY =
            new UcpRequestParams().setMemoryType(UcsConstants.MEMORY_TYPE.UCS_MEMORY_TYPE_HOST);

    static final int MAX_MESSAGE = 1 << 20;

    /** Ids of active messages: an {@link Envelope} and a message, or as UCX's header both and then the body. */
    static final int MESSAGE = 1;
    /** An envelope that requests an answer when everything before it has arrived. */
    static final int GOODBYE = 2;
    /** The answer to a goodbye: the id of the link. */
    static final int DELIVERED = 3;

    /** How long a peer may take to receive what was sent before a link was closed. */
    static final long CLOSE_NS = 500_000_000;

    private static final System.Logger LOG = System.getLogger(UcxWire.class.getName());
    private static final int MAX_PROGRESS = 16;

    /** Records the process's sockets before UCX opens any. */
    private final HostSockets hostSockets = new HostSockets();
    private final UcpContext context;
    private final UcpWorker worker;
    private final @Nullable Events events;
    private final UcpListener listener;
    private final String address;
    private final int bulkLength;
    private final List<UcxLink> links = new ArrayList<>();
    private final List<UcxLink> closing = new ArrayList<>();
    private final Queue<UcpConnectionRequest> connectionRequests = new ArrayDeque<>();
    private final List<UcpEndpoint> accepted = new ArrayList<>();
    private final List<UcpEndpoint> failed = new ArrayList<>();
    private final SendRing replies = new SendRing(4096);
    private final UnsafeBuffer answer = new UnsafeBuffer(0, 0);
    private final Arrivals arrivals = new Arrivals(accepted, failed);
    private final boolean networkWrites;
    private final boolean emulatesWrites;
    private final Set<UcxRegistration> registered = new HashSet<>();
    private Backoff backoff = Backoff.forThreads(1);
    private boolean closed;

    UcxWire(WireConfig config) {
        UcxSettings settings = UcxSettings.of(config);
        bulkLength = settings.bulkLength();
        networkWrites = settings.networkWrites();
        emulatesWrites = settings.emulatesWrites();
        List<AutoCloseable> opened = new ArrayList<>(List.of(replies));
        try {
            UcpParams params = new UcpParams().requestAmFeature();
            if (networkWrites) {
                // From then on UCX reads and writes any memory of this process for any process that connects to it.
                params.requestRmaFeature();
            }
            settings.values().forEach(params::setConfig);
            if (settings.onlyTcp()) {
                params.requestWakeupFeature();
            }
            context = new UcpContext(params);
            opened.addFirst(context);
            worker = context.newWorker(new UcpWorkerParams());
            opened.addFirst(worker);
            events = settings.onlyTcp() ? new Events(worker) : null;
            handle(MESSAGE, arrivals::message);
            handle(GOODBYE, (_, _, data, length, replyTo) -> arrivals.goodbye(data, length, replyTo));
            handle(DELIVERED, (_, _, data, length, _) -> onDelivered(data, length));
            listener = listen(config);
            opened.addFirst(listener);
            address = HostPort.format(config.host(), listener.getAddress().getPort());
        } catch (UcxException e) {
            closeAll(opened);
            throw new TransportException(TransportException.Problem.UNAVAILABLE, "UCX cannot be set up with "
                    + settings + ": " + e.getMessage(), "correct the options of the transport", e);
        } catch (RuntimeException e) {
            closeAll(opened);
            throw e;
        }
    }

    /** Called from native code: must not make progress. */
    private interface Handler {
        void onMessage(long header, int headerLength, long data, int length, UcpEndpoint replyTo);
    }

    private void handle(int kind, Handler handler) {
        worker.setAmRecvHandler(kind, (header, headerLength, data, replyTo) -> {
            // Peers of this library send nothing that would have to be fetched.
            if (data.isDataValid() && data.getLength() <= Envelope.LENGTH + MAX_MESSAGE) {
                try {
                    handler.onMessage(header, (int) headerLength, data.getDataAddress(), (int) data.getLength(),
                            replyTo);
                } catch (Throwable e) {
                    arrivals.fail(e);
                }
            }
            return UcsConstants.STATUS.UCS_OK;
        }, UcpConstants.UCP_AM_FLAG_WHOLE_MSG);
    }

    private void onDelivered(long from, int length) {
        if (length == Long.BYTES) {
            answer.wrap(from, length);
            for (int i = 0; i < closing.size(); i++) {
                closing.get(i).onDelivered(answer.getLong(0));
            }
        }
    }

    private int answerGoodbyes() {
        int answered = 0;
        for (Inflow inflow : arrivals.inflows()) {
            int at = inflow.isAnswerDue() ? replies.claim(Long.BYTES) : -1;
            if (at < 0) {
                continue;
            }
            replies.buffer().putLong(at, inflow.link());
            try {
                UcpRequest request = send(Objects.requireNonNull(inflow.endpoint()), DELIVERED, 0, 0,
                        replies.address() + at, Long.BYTES, false);
                if (!request.isCompleted()) {
                    replies.hold(at, Long.BYTES, request, null);
                }
            } catch (UcxException e) {
                LOG.log(Level.DEBUG, "cannot answer a link that is gone", e);
            }
            inflow.markAnswered();
            answered++;
        }
        return answered;
    }

    private UcpListener listen(WireConfig config) {
        InetSocketAddress local = HostPort.resolve(config.host(), config.port());
        try {
            return worker.newListener(new UcpListenerParams().setSockAddr(local)
                    .setConnectionHandler(connectionRequests::add));
        } catch (UcxException e) {
            if (e.getStatus() == UcsConstants.STATUS.UCS_ERR_BUSY) {
                throw HostPort.unbound(local, e, "");
            }
            throw new TransportException(TransportException.Problem.ARGUMENT, "cannot listen at " + local + ": "
                    + e.getMessage(), "give an address of this machine that UCX's network devices have", e);
        }
    }

    static void checkLength(int length) {
        if (length > MAX_MESSAGE) {
            throw new TransportException(TransportException.Problem.ARGUMENT,
                    "a message must have at most " + MAX_MESSAGE + " bytes, got " + length, "");
        }
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
    public int bulkMessageLength() {
        return bulkLength;
    }

    @Override
    public Link open(String peer) {
        checkOpen();
        UcxLink link = new UcxLink(this, HostPort.parse(peer));
        links.add(link);
        return link;
    }

    @Override
    public boolean opensImmediately(String peer) {
        return HostPort.isNumeric(peer);
    }

    @Override
    public int poll(Inbox inbox, int limit) {
        checkOpen();
        arrivals.begin(inbox, limit);
        int work = 0;
        try {
            int progress = 1;
            for (int i = 0; i < MAX_PROGRESS && progress > 0 && arrivals.isIdle(); i++) {
                progress = progress();
                work += progress;
            }
            work += tend();
        } finally {
            work += arrivals.end();
        }
        if (events != null) {
            events.progressed(work);
        }
        return work;
    }

    private int progress() {
        try {
            return worker.progress();
        } catch (Exception e) {
            throw Arrivals.unchecked(e);
        }
    }

    /** Accepts connection requests and closes failed endpoints. */
    private int tend() {
        int work = connectionRequests.size() + failed.size();
        UcpConnectionRequest request;
        while ((request = connectionRequests.poll()) != null) {
            accept(request);
        }
        for (UcpEndpoint endpoint : failed) {
            if (accepted.remove(endpoint)) {
                arrivals.forget(endpoint);
                drop(endpoint);
            }
        }
        failed.clear();
        work += answerGoodbyes();
        for (int i = 0; i < links.size(); i++) {
            work += links.get(i).work();
        }
        for (int i = closing.size() - 1; i >= 0; i--) {
            UcxLink link = closing.get(i);
            work += link.work();
            if (link.isOver()) {
                closing.remove(i).free();
            }
        }
        return work;
    }

    private void accept(UcpConnectionRequest request) {
        try {
            accepted.add(worker.newEndpoint(new UcpEndpointParams().setPeerErrorHandlingMode()
                    .setConnectionRequest(request).setErrorHandler((endpoint, _, _) -> failed.add(endpoint))));
        } catch (UcxException e) {
            // The peer is gone already; it notices at its own end.
            LOG.log(Level.DEBUG, "connection request failed", e);
        }
    }

    UcpEndpoint connect(InetSocketAddress peer, Runnable onFailure) {
        return worker.newEndpoint(new UcpEndpointParams().setPeerErrorHandlingMode().setSocketAddress(peer)
                .setErrorHandler((_, _, _) -> onFailure.run()));
    }

    static UcpRequest send(UcpEndpoint endpoint, int kind, long header, int headerLength, long from, int length,
            boolean answered) {
        long flags = UcpConstants.UCP_AM_SEND_FLAG_EAGER | (answered ? UcpConstants.UCP_AM_SEND_FLAG_REPLY : 0);
        return endpoint.sendAmNonBlocking(kind, header, headerLength, from, length, flags, null, HOST_MEMORY);
    }

    /**
     * Closes an endpoint, which must not be used any more. A graceful close might never end if the peer is stopped.
     */
    void drop(UcpEndpoint endpoint) {
        try {
            endpoint.closeNonBlockingForce();
        } catch (UcxException e) {
            LOG.log(Level.DEBUG, "cannot close an endpoint", e);
        }
    }

    /** Returns whether messages have arrived that have yet to be delivered. */
    boolean keepsMessages() {
        return arrivals.keepsMessages();
    }

    /** Tunes the connections of a link that begins to send bulk data, if its peer is on this host. */
    void tuneSockets(UcxLink link) {
        if (link.isLocal()) {
            int sockets = hostSockets.tune();
            LOG.log(Level.DEBUG, "disabled pacing of {0} connections within the host", sockets);
        }
    }

    boolean isAt(InetAddress host) {
        return listener.getAddress().getAddress().equals(host);
    }

    void forget(UcxLink link) {
        if (links.remove(link)) {
            closing.add(link);
        }
    }

    @Override
    public boolean sendsInPlace() {
        return true;
    }

    @Override
    public @Nullable RemoteWrites remoteWrites() {
        return networkWrites ? this : null;
    }

    @Override
    public boolean areEmulated() {
        return emulatesWrites;
    }

    @Override
    public Registration register(MemorySegment memory) {
        checkOpen();
        TransportException.require(memory.isNative() && memory.byteSize() > 0,
                "only native memory of at least 1 byte can be registered, got " + memory, "");
        UcxRegistration registration = new UcxRegistration(context, memory, registered::remove);
        registered.add(registration);
        return registration;
    }

    @Override
    public Target attach(Link link, byte[] key) {
        checkOpen();
        return ((UcxLink) link).attach(key);
    }

    @Override
    public void pollingThreads(int threads) {
        backoff = Backoff.forThreads(threads);
    }

    @Override
    public void idle(long idleNs) {
        if (events == null || !backoff.shouldSleep(idleNs) || !events.await()) {
            backoff.pause(idleNs);
        }
    }

    @Override
    public void close() {
        if (closed) {
            return;
        }
        List.copyOf(links).forEach(UcxLink::close);
        boolean interrupted = false;
        long begin = System.nanoTime();
        while (!closing.isEmpty() && System.nanoTime() - begin < CLOSE_NS) {
            interrupted |= Thread.interrupted(); // Otherwise each pause would end at once.
            if (progress() + tend() == 0) {
                idle(System.nanoTime() - begin);
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        closed = true;
        if (events != null) {
            events.close();
        }
        closing.forEach(UcxLink::end);
        accepted.forEach(this::drop);
        progress();
        // UCX aborts the process if memory is still registered.
        List.copyOf(registered).forEach(UcxRegistration::close);
        closeAll(List.<AutoCloseable>of(listener, worker, context));
        closing.forEach(UcxLink::free);
        replies.close();
    }

    private void checkOpen() {
        if (closed) {
            throw new TransportException(TransportException.Problem.CLOSED, "the ucx wire is closed", "");
        }
    }

    private static void closeAll(List<? extends AutoCloseable> resources) {
        for (AutoCloseable resource : resources) {
            try {
                resource.close();
            } catch (Exception e) {
                throw Arrivals.unchecked(e);
            }
        }
    }
}
