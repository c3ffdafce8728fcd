package dev.starling.distributed.ps.worker;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.RunMembership;
import dev.starling.transport.Endpoint;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BooleanSupplier;
import org.agrona.DirectBuffer;

/**
 * A worker's requests to its servers. When a server returns after a loss, the client repeats all requests that the
 * server has not answered. The training thread makes requests and waits; replies are processed under the group's lock.
 */
public final class Client {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final Duration CHECK_INTERVAL = Duration.ofMillis(200);
    private static final Duration JOB_INTERVAL = Duration.ofMillis(50);

    public final ServerLink[] servers;

    private final Membership group;
    private final Runnable pumping = this::pump;
    private final int worker;
    private final int workers;
    private final boolean synchronous;
    private final SecureRandom random;
    /** {@code null} before {@link #open}, and unless training is synchronous. */
    private volatile RunMembership membership;
    private volatile int awaited;
    private volatile DistributedException failure;
    private volatile Map<String, String> furthest;
    private volatile boolean awaitsNotes;
    private volatile double[] total;
    private volatile RowJob job;
    /** When a server last reported progress of a task with rows, during which it may not reply. */
    private volatile long workingNs = Long.MIN_VALUE;
    private long round;

    /** Creates a link for each server of a plan; the client sends nothing before {@link #open}. */
    public Client(Membership group, int worker, Plan plan, boolean synchronous, SecureRandom random) {
        this.group = group;
        this.worker = worker;
        this.workers = plan.workers();
        this.synchronous = synchronous;
        this.random = random;
        byte[] encoded = plan.encode();
        servers = new ServerLink[plan.servers()];
        for (int s = 0; s < servers.length; s++) {
            servers[s] = new ServerLink(s, worker, encoded, group.transport()::nanoTime);
        }
    }

    /** Adds a table to all links; returns its parts by server. Called before {@link #open}. */
    public TablePart[] partsOf(Plan plan, int table) {
        TablePart[] parts = new TablePart[servers.length];
        for (int s = 0; s < parts.length; s++) {
            parts[s] = new TablePart(servers[s], servers[s].requests.length + table, plan, plan.tables().get(table),
                    random);
            servers[s].tables.add(parts[s]);
        }
        return parts;
    }

    /** Starts to receive messages; in synchronous training after the membership epoch has started. */
    public void open() {
        if (synchronous) {
            group.await(() -> group.failure() == null || group.isEnded(), group.config().timeout());
        }
        group.locked(() -> {
            membership = synchronous ? new RunMembership(group, workers + servers.length, _ -> true) : null;
            group.channel(Message.CHANNEL, this::onMessage);
        });
    }

    /**
     * Stops receiving. A worker that ends because of a loss first sends the loss to all servers; otherwise they would
     * take this worker for the lost one.
     */
    public void close() {
        if (membership != null && membership.failure() instanceof PeerLostException loss && !group.isEnded()) {
            group.await(() -> sendLoss(loss), CHECK_INTERVAL);
        }
        group.channel(Message.CHANNEL, null);
        if (membership != null) {
            membership.close();
        }
    }

    /** Sends a loss to all servers; returns whether each connected server accepted the message. */
    private boolean sendLoss(PeerLostException loss) {
        boolean[] sent = {true};
        group.locked(() -> {
            for (ServerLink server : servers) {
                sent[0] &= server.sendLoss(loss);
            }
        });
        return sent[0];
    }

    // ---- requests ----

    /** Sends a request to server 0, which keeps the run's notes and computes sums over workers. */
    public void askFirst(int kind, byte[] body) {
        group.locked(() -> servers[0].ask(kind, body));
    }

    /** Sends server 0 a message that has no reply. */
    public void notifyFirst(int kind, byte[] body) {
        group.locked(() -> servers[0].send(kind, body));
    }

    /** Sends a request to every server. */
    public void askServers(int kind) {
        group.locked(() -> {
            for (ServerLink server : servers) {
                server.ask(kind, new byte[0]);
            }
        });
    }

    /** Sends a request for each block of the parameters. */
    public void ask(BlockRequest[][] parameters, int kind) {
        group.locked(() -> {
            for (BlockRequest[] each : parameters) {
                for (BlockRequest request : each) {
                    ask(request, kind);
                }
            }
            pump();
        });
    }

    /** Requests one slot of the rule's state for each block whose rule has it; {@code which} counts from 1. */
    public void askKept(BlockRequest[][] parameters, int which) {
        group.locked(() -> {
            for (BlockRequest[] each : parameters) {
                for (BlockRequest request : each) {
                    if (request.kept.length >= which) {
                        request.which = which;
                        ask(request, Message.PULL);
                    }
                }
            }
            pump();
        });
    }

    /** Queues a gradient, or a push without one if {@code address} is 0, and sends as much as the links accept. */
    public void push(BlockRequest[] requests, double rate, long address) {
        group.locked(() -> {
            for (BlockRequest request : requests) {
                request.rate = rate;
                request.gradient.wrap(address + 4 * request.block.from(), address == 0 ? 0 : request.bytes());
                ask(request, Message.PUSH);
            }
            pump();
        });
        group.wake();
    }

    /** Sends requests for rows of tables. */
    public void ask(TablePart[] parts, int kind) {
        group.locked(() -> {
            for (TablePart part : parts) {
                awaited += part.ask(kind) ? 1 : 0;
            }
            pump();
        });
        group.wake();
    }

    private void ask(BlockRequest request, int kind) {
        awaited++;
        request.server.ask(request, kind);
    }

    /** Requests the sum over workers of {@code n} values; {@link #total} waits for it. */
    void askSum(double[] values, int from, int n) {
        ByteBuffer body = ByteBuffer.allocate(12 + 8 * n).order(Message.ORDER).putLong(round).putInt(n);
        for (int i = 0; i < n; i++) {
            body.putDouble(values[from + i]);
        }
        group.locked(() -> {
            total = null;
            servers[0].ask(Message.SUM, body.array());
            servers[0].pump();
        });
        group.wake();
    }

    /** Waits for the sum that {@link #askSum} requested. */
    double[] total(String what) {
        await(what);
        round++;
        return total;
    }

    /** Returns the notes of the worker that is furthest ahead, or {@code null} if none have arrived. */
    public Map<String, String> furthest() {
        return furthest;
    }

    /** Sends a job to the servers that have not finished it. Safe from any thread. */
    public void ask(RowJob newJob) {
        group.locked(() -> {
            job = newJob;
            pump();
            for (ServerLink server : servers) {
                byte[] request = newJob.request(server.number);
                if (request != null) {
                    server.send(Message.TASK, request);
                }
            }
        });
    }

    // ---- waiting ----

    /** Works until a job has reached a state. */
    public void await(RowJob newJob, BooleanSupplier reached, String what) {
        while (!reached.getAsBoolean()) {
            ask(newJob);
            group.await(() -> reached.getAsBoolean() || failure != null || isOver(), JOB_INTERVAL);
            throwIfOver();
            if (isTimedOut(newJob.lastChangeNs()) && !reached.getAsBoolean()) {
                throw timeout(what);
            }
        }
    }

    long nanoTime() {
        return group.transport().nanoTime();
    }

    /** Returns whether the group's timeout has passed since a moment. */
    boolean isTimedOut(long sinceNs) {
        return nanoTime() - sinceNs > group.config().timeout().toNanos();
    }

    private void throwIfOver() {
        RunMembership present = membership;
        if (present != null && present.failure() != null) {
            throw present.failure();
        }
        if (failure != null) {
            throw failure;
        }
        if (group.isEnded()) {
            throw group.failure();
        }
    }

    private void pump() {
        for (ServerLink server : servers) {
            if (membership != null && server.isMissed()) {
                membership.reportMissing(server.endpoint);
            }
            server.pump();
        }
    }

    private boolean isComplete() {
        if (awaited > 0 || awaitsNotes && furthest == null) {
            return false;
        }
        for (ServerLink server : servers) {
            if (!server.isAnswered()) {
                return false;
            }
        }
        return true;
    }

    /** Works until servers have answered all requests and one has sent the notes of the run. */
    public void awaitWithNotes(String what) {
        awaitsNotes = true;
        await(what);
        awaitsNotes = false;
    }

    /** Works until servers have answered all requests; {@code what} completes "waited ..." in the error message. */
    public void await(String what) {
        long begin = nanoTime();
        while (!isComplete()) {
            group.await(() -> {
                // Sends what a link has refused because of back-pressure.
                group.locked(pumping);
                return isComplete() || failure != null || isOver();
            }, CHECK_INTERVAL);
            throwIfOver();
            rejoinIfExcluded();
            if (isTimedOut(Math.max(begin, workingNs)) && !isComplete()) {
                throw timeout(what);
            }
        }
    }

    /** Rejoins the group if it continued without this worker, perhaps because the worker's process was stopped. */
    private void rejoinIfExcluded() {
        group.locked(() -> {
            if (!synchronous && group.isCoordinatorLost() && Arrays.stream(servers).noneMatch(
                    server -> server.endpoint != null && server.endpoint.isConnected())) {
                group.rejoin();
            }
        });
    }

    /** Returns whether no reply can arrive any more. A worker reaches servers also while a new epoch forms. */
    boolean isOver() {
        RunMembership present = membership;
        return group.isEnded() || present != null && present.failure() != null;
    }

    private DistributedException timeout(String what) {
        StringBuilder message = new StringBuilder("worker " + worker + " waited " + group.config().timeout() + " "
                + what + ":");
        for (ServerLink server : servers) {
            Endpoint endpoint = server.endpoint;
            if (server.isMissed()) {
                Duration silent = Duration.ofNanos(group.transport().nanoTime() - endpoint.lastReceivedNs());
                return new PeerLostException(workers + server.number, silent, "it is " + server
                        + ", and did not return within " + group.config().timeout());
            }
            message.append(' ').append(server);
        }
        return new DistributedException(message.toString());
    }

    // ---- under the group's lock ----

    private void onMessage(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int kind = length < 8 ? 0 : buffer.getInt(offset, Message.ORDER);
        if (kind == Message.DONE || kind == Message.UNKNOWN_SESSION || kind == Message.NOT_FINITE) {
            onReply(kind, buffer, offset, length);
            return;
        }
        int number = length < 8 ? -1 : buffer.getInt(offset + 4, Message.ORDER);
        if (number < 0 || number >= servers.length) {
            return;
        }
        ServerLink server = servers[number];
        switch (kind) {
            case Message.ANNOUNCE -> server.connect(from);
            case Message.WELCOME -> {
                if (length >= 20) {
                    if (server.hasLostState(buffer.getLong(offset + 12, Message.ORDER),
                            buffer.getInt(offset + 8, Message.ORDER) != 0)) {
                        LOG.log(Level.WARNING, "server {0} was restarted without its state, and updates that it had "
                                + "acknowledged are lost: it continues with the weights of the first worker that "
                                + "rejoins it; to make servers keep their state, give them a directory "
                                + "(ServerConfig.in, or --server-data)", number);
                    }
                    readNotes(buffer.getStringWithoutLengthUtf8(offset + 20, length - 20));
                    server.onWelcome();
                }
            }
            case Message.REFUSED -> failure = new DistributedException("server " + number + " refused worker "
                    + worker + ": " + buffer.getStringWithoutLengthUtf8(offset + 8, length - 8));
            case Message.TOTAL -> {
                int n = length < 20 ? -1 : buffer.getInt(offset + 16, Message.ORDER);
                if (total == null && n >= 0 && length == 20 + 8L * n
                        && buffer.getLong(offset + 8, Message.ORDER) == round) {
                    double[] values = new double[n];
                    for (int i = 0; i < n; i++) {
                        values[i] = buffer.getDouble(offset + 20 + 8 * i, Message.ORDER);
                    }
                    total = values;
                    server.onAnswer();
                }
            }
            case Message.TASK_STATE -> {
                RowJob present = job;
                if (present != null) {
                    byte[] report = new byte[length - 8];
                    buffer.getBytes(offset + 8, report);
                    present.onReport(number, report);
                }
            }
            case Message.LOST -> {
                if (membership != null) {
                    membership.onLossMessage(from, buffer, offset + 8, length - 8);
                }
            }
            case Message.WORKING -> workingNs = nanoTime();
            case Message.BEGUN -> server.onAnswer();
            case Message.FAREWELL -> server.onFarewell();
            default -> { }
        }
        server.pump();
    }

    private void onReply(int kind, DirectBuffer buffer, int offset, int length) {
        if (length < Message.REPLY_HEADER) {
            return;
        }
        if (kind == Message.NOT_FINITE) {
            failure = new DistributedException("server " + buffer.getInt(offset + Message.SERVER, Message.ORDER)
                    + " refused a gradient of worker " + worker + " that is infinite or NaN; find the first operation "
                    + "that is not finite with Tape.detectAnomalies");
        } else {
            onUnitReply(buffer, offset, length);
        }
    }

    private void readNotes(String text) {
        if (!text.isEmpty()) {
            Map<String, String> notes = new LinkedHashMap<>();
            for (String line : text.split("\n")) {
                int equals = line.indexOf('=');
                notes.put(line.substring(0, Math.max(0, equals)), line.substring(equals + 1));
            }
            furthest = notes;
        }
    }

    private void onUnitReply(DirectBuffer buffer, int offset, int length) {
        int number = buffer.getInt(offset + Message.SERVER, Message.ORDER);
        int index = buffer.getInt(offset + Message.REPLY_UNIT, Message.ORDER);
        if (number < 0 || number >= servers.length || index < 0) {
            return;
        }
        ServerLink server = servers[number];
        int table = index - server.requests.length;
        if (table < 0) {
            onBlockReply(server.requests[index], buffer, offset, length);
        } else if (table < server.tables.size() && server.tables.get(table).onReply(buffer, offset, length)) {
            awaited--;
        }
        server.pump();
    }

    private void onBlockReply(BlockRequest request, DirectBuffer buffer, int offset, int length) {
        boolean pull = buffer.getInt(offset + Message.REPLY_KIND, Message.ORDER) == Message.PULL;
        if (request.asked == 0 || buffer.getLong(offset + Message.REPLY_SESSION, Message.ORDER) != request.session
                || pull != (request.asked == Message.PULL)) {
            return;
        }
        long done = buffer.getLong(offset + Message.REPLY_SEQUENCE, Message.ORDER);
        if (buffer.getInt(offset, Message.ORDER) == Message.UNKNOWN_SESSION) {
            if (request.asked != Message.JOIN && done == request.sequence) {
                LOG.log(Level.DEBUG, "server {0} no longer knows the session of worker {1} in block {2}; rejoining",
                        request.server.number, worker, request.number);
                request.session = random.nextLong();
                request.sequence = 0;
                request.next = request.asked;
                request.server.ask(request, Message.JOIN);
            }
        } else if (request.asked == Message.JOIN || done == request.sequence) {
            if (length - Message.REPLY_HEADER != request.bytes()) {
                return;
            }
            request.target().putBytes(0, buffer, offset + Message.REPLY_HEADER, request.bytes());
            if (request.next != 0) {
                request.server.ask(request, request.next);
                request.next = 0;
            } else {
                request.sequence += request.asked == Message.PUSH ? 1 : 0;
                request.asked = 0;
                request.which = 0;
                request.keptSteps = 0;
                awaited--;
            }
        }
    }
}
