package dev.starling.distributed.ps;

import dev.starling.distributed.Channels;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.transport.Endpoint;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import org.agrona.DirectBuffer;

/**
 * What a worker asks its servers, and the waiting for their answers. Whatever was asked is asked again of a server that
 * was away, until it answers. Asked and waited for by the training thread; answers are taken under the group's lock.
 */
final class Client {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final Duration TURN = Duration.ofMillis(200);
    private static final Duration TASK_TURN = Duration.ofMillis(50);

    final ServerLink[] servers;

    private final Group group;
    private final Runnable pumping = this::pump;
    private final int worker;
    private final int workers;
    private final boolean isSynchronous;
    private final SecureRandom random;
    /** {@code null} before {@link #open}, and where nobody waits for all others. */
    private volatile Attendance attendance;
    private volatile int awaited;
    private volatile DistributedException failure;
    private volatile Map<String, String> furthest;
    private volatile boolean awaitsNotes;
    private volatile double[] total;
    private volatile RowErrand errand;
    /** When a server last told that it is at a task for which workers may have to wait. */
    private volatile long workingNs = Long.MIN_VALUE;
    private long round;

    /** Makes links to all servers of a plan; nothing is sent before {@link #open}. */
    Client(Group group, int worker, Plan plan, boolean isSynchronous, SecureRandom random) {
        this.group = group;
        this.worker = worker;
        this.workers = plan.workers();
        this.isSynchronous = isSynchronous;
        this.random = random;
        byte[] encoded = plan.encode();
        servers = new ServerLink[plan.servers()];
        for (int s = 0; s < servers.length; s++) {
            servers[s] = new ServerLink(s, worker, encoded, group.transport()::nanoTime);
        }
    }

    /** Begins to listen; where all wait for all, when the epoch has begun. */
    void open() {
        if (isSynchronous) {
            group.await(() -> group.failure() == null || group.isEnded(), group.config().patience());
        }
        group.locked(() -> {
            attendance = isSynchronous ? new Attendance(group, workers + servers.length, _ -> true) : null;
            group.channel(Channels.PARAMETERS, this::take);
        });
    }

    /** Listens no more. Who ends because of a loss says so first, or it would be taken for the one that is lost. */
    void close() {
        if (attendance != null && attendance.failure() instanceof PeerLostException loss && !group.isEnded()) {
            group.await(() -> tell(loss), TURN);
        }
        group.channel(Channels.PARAMETERS, null);
        if (attendance != null) {
            attendance.close();
        }
    }

    /** Tells all servers of a loss; returns whether there was room. */
    private boolean tell(PeerLostException loss) {
        boolean[] isTold = {true};
        group.locked(() -> {
            for (ServerLink server : servers) {
                isTold[0] &= server.tell(loss);
            }
        });
        return isTold[0];
    }

    // ---- asking ----

    /** Asks the first server, which is the one that keeps what concerns all. */
    void askFirst(int kind, byte[] body) {
        group.locked(() -> servers[0].ask(kind, body));
    }

    /** Tells the first server something that has no answer. */
    void tellFirst(int kind, byte[] body) {
        group.locked(() -> servers[0].tell(kind, body));
    }

    /** Asks every server. */
    void askServers(int kind) {
        group.locked(() -> {
            for (ServerLink server : servers) {
                server.ask(kind, new byte[0]);
            }
        });
    }

    /** Asks for each block of the parameters. */
    void ask(Unit[][] parameters, int kind) {
        group.locked(() -> {
            for (Unit[] each : parameters) {
                for (Unit unit : each) {
                    ask(unit, kind);
                }
            }
            pump();
        });
    }

    /** Asks for that which the rule keeps of each block, if it keeps so much. */
    void askKept(Unit[][] parameters, int which) {
        group.locked(() -> {
            for (Unit[] each : parameters) {
                for (Unit unit : each) {
                    if (unit.kept.length >= which) {
                        unit.which = which;
                        ask(unit, Message.PULL);
                    }
                }
            }
            pump();
        });
    }

    /** Queues a gradient, or that there is none, and sends what there is room for. */
    void push(Unit[] units, double rate, long address) {
        group.locked(() -> {
            for (Unit unit : units) {
                unit.rate = rate;
                unit.gradient.wrap(address + 4 * unit.block.from(), address == 0 ? 0 : unit.bytes());
                ask(unit, Message.PUSH);
            }
            pump();
        });
        group.wake();
    }

    /** Asks for rows of tables. */
    void ask(TablePart[] parts, int kind) {
        group.locked(() -> {
            for (TablePart part : parts) {
                awaited += part.ask(kind) ? 1 : 0;
            }
            pump();
        });
        group.wake();
    }

    private void ask(Unit unit, int kind) {
        awaited++;
        unit.server.ask(unit, kind);
    }

    /** Asks for the sum over workers of some numbers; {@link #total} has it when it is there. */
    void askSum(double[] values, int from, int n) {
        ByteBuffer body = ByteBuffer.allocate(12 + 8 * n).order(ORDER).putLong(round).putInt(n);
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

    /** Waits for the sum that was asked for. */
    double[] total(String what) {
        await(what);
        round++;
        return total;
    }

    /** Returns the notes of the worker that is furthest, or {@code null} if none came. */
    Map<String, String> furthest() {
        return furthest;
    }

    /** Tells those servers that have not done their part of an errand. Any thread may. */
    void ask(RowErrand asked) {
        group.locked(() -> {
            errand = asked;
            pump();
            for (ServerLink server : servers) {
                byte[] wish = asked.wish(server.number);
                if (wish != null) {
                    server.tell(Message.TASK, wish);
                }
            }
        });
    }

    // ---- waiting ----

    /** Works until all servers are so far with an errand, or one has failed. */
    void pursue(RowErrand asked, int state, String what) {
        while (!asked.isAt(state)) {
            ask(asked);
            group.await(() -> asked.isAt(state) || failure != null || isOver(), TASK_TURN);
            throwIfOver();
            if (isLate(asked.heardNs()) && !asked.isAt(state)) {
                throw late(what);
            }
        }
    }

    long nanoTime() {
        return group.transport().nanoTime();
    }

    /** Tells whether it is longer ago than one waits. */
    boolean isLate(long sinceNs) {
        return nanoTime() - sinceNs > group.config().patience().toNanos();
    }

    private void throwIfOver() {
        Attendance present = attendance;
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
            if (attendance != null && server.isMissed()) {
                attendance.miss(server.endpoint);
            }
            server.pump();
        }
    }

    private boolean isThere() {
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

    /** Works until all that was asked is answered, and somebody has told where the run stands. */
    void awaitWithNotes(String what) {
        awaitsNotes = true;
        await(what);
        awaitsNotes = false;
    }

    /** Works until all that was asked is answered. */
    void await(String what) {
        long begin = nanoTime();
        while (!isThere()) {
            group.await(() -> {
                // What there was no room for goes as soon as there is.
                group.locked(pumping);
                return isThere() || failure != null || isOver();
            }, TURN);
            throwIfOver();
            keepTouch();
            if (isLate(Math.max(begin, workingNs)) && !isThere()) {
                throw late(what);
            }
        }
    }

    /** Asks to be let back in by those who have gone on without this worker, perhaps because it was stopped. */
    private void keepTouch() {
        group.locked(() -> {
            if (!isSynchronous && group.isCoordinatorLost() && Arrays.stream(servers).noneMatch(
                    server -> server.endpoint != null && server.endpoint.isConnected())) {
                group.rejoin();
            }
        });
    }

    /** Tells whether there is no hope left; servers are reached while a new epoch forms, too. */
    boolean isOver() {
        Attendance present = attendance;
        return group.isEnded() || present != null && present.failure() != null;
    }

    private DistributedException late(String what) {
        StringBuilder who = new StringBuilder("worker " + worker + " waited " + group.config().patience() + " "
                + what + ":");
        for (ServerLink server : servers) {
            Endpoint endpoint = server.endpoint;
            if (server.isMissed()) {
                Duration unheard = Duration.ofNanos(group.transport().nanoTime() - endpoint.lastReceivedNs());
                return new PeerLostException(workers + server.number, unheard, "it is " + server
                        + ", and has not come back within " + group.config().patience());
            }
            who.append(' ').append(server);
        }
        return new DistributedException(who.toString());
    }

    // ---- under the group's lock ----

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int kind = length < 8 ? 0 : buffer.getInt(offset, ORDER);
        if (kind == Message.DONE || kind == Message.UNKNOWN_SESSION || kind == Message.NOT_FINITE) {
            reply(kind, buffer, offset, length);
            return;
        }
        int number = length < 8 ? -1 : buffer.getInt(offset + 4, ORDER);
        if (number < 0 || number >= servers.length) {
            return;
        }
        ServerLink server = servers[number];
        switch (kind) {
            case Message.HERE -> server.connect(from);
            case Message.WELCOME -> {
                if (length >= 20) {
                    if (server.hasForgotten(buffer.getLong(offset + 12, ORDER),
                            buffer.getInt(offset + 8, ORDER) != 0)) {
                        LOG.log(Level.WARNING, "server {0} has begun anew, and updates that it had acknowledged are "
                                + "lost: it goes on with the weights of the first worker that comes back to it; so "
                                + "that it keeps what it holds, give servers a directory (ServerConfig.in, or "
                                + "--server-data)", number);
                    }
                    hear(buffer.getStringWithoutLengthUtf8(offset + 20, length - 20));
                    server.welcome();
                }
            }
            case Message.REFUSED -> failure = new DistributedException("server " + number + " refused worker "
                    + worker + ": " + buffer.getStringWithoutLengthUtf8(offset + 8, length - 8));
            case Message.TOTAL -> {
                int n = length < 20 ? -1 : buffer.getInt(offset + 16, ORDER);
                if (total == null && n >= 0 && length == 20 + 8L * n && buffer.getLong(offset + 8, ORDER) == round) {
                    double[] values = new double[n];
                    for (int i = 0; i < n; i++) {
                        values[i] = buffer.getDouble(offset + 20 + 8 * i, ORDER);
                    }
                    total = values;
                    server.answered();
                }
            }
            case Message.TASK_STATE -> {
                RowErrand asked = errand;
                if (length >= 28 && asked != null && buffer.getLong(offset + 8, ORDER) == asked.id) {
                    asked.hear(number, buffer.getInt(offset + 16, ORDER), buffer.getLong(offset + 20, ORDER),
                            buffer.getStringWithoutLengthUtf8(offset + 28, length - 28));
                }
            }
            case Message.LOST -> {
                if (attendance != null) {
                    attendance.lose(from, buffer, offset + 8, length - 8);
                }
            }
            case Message.WORKING -> workingNs = nanoTime();
            case Message.BEGUN -> server.answered();
            case Message.FAREWELL -> server.part();
            default -> { }
        }
        server.pump();
    }

    private void reply(int kind, DirectBuffer buffer, int offset, int length) {
        if (length < Message.REPLY_HEADER) {
            return;
        }
        if (kind == Message.NOT_FINITE) {
            failure = new DistributedException("server " + buffer.getInt(offset + Message.SERVER, ORDER)
                    + " refused a gradient of worker " + worker + " that is infinite or NaN; find the first operation "
                    + "that is not finite with Tape.detectAnomalies");
        } else {
            answer(buffer, offset, length);
        }
    }

    private void hear(String notes) {
        if (!notes.isEmpty()) {
            Map<String, String> heard = new LinkedHashMap<>();
            for (String line : notes.split("\n")) {
                int equals = line.indexOf('=');
                heard.put(line.substring(0, Math.max(0, equals)), line.substring(equals + 1));
            }
            furthest = heard;
        }
    }

    private void answer(DirectBuffer buffer, int offset, int length) {
        int number = buffer.getInt(offset + Message.SERVER, ORDER);
        int index = buffer.getInt(offset + Message.REPLY_UNIT, ORDER);
        if (number < 0 || number >= servers.length || index < 0) {
            return;
        }
        ServerLink server = servers[number];
        int table = index - server.units.length;
        if (table < 0) {
            answer(server.units[index], buffer, offset, length);
        } else if (table < server.tables.size() && server.tables.get(table).answer(buffer, offset, length)) {
            awaited--;
        }
        server.pump();
    }

    private void answer(Unit unit, DirectBuffer buffer, int offset, int length) {
        boolean isPull = buffer.getInt(offset + Message.REPLY_KIND, ORDER) == Message.PULL;
        if (unit.asked == 0 || buffer.getLong(offset + Message.REPLY_SESSION, ORDER) != unit.session
                || isPull != (unit.asked == Message.PULL)) {
            return;
        }
        long done = buffer.getLong(offset + Message.REPLY_SEQUENCE, ORDER);
        if (buffer.getInt(offset, ORDER) == Message.UNKNOWN_SESSION) {
            if (unit.asked != Message.JOIN && done == unit.sequence) {
                LOG.log(Level.DEBUG, "server {0} does not know worker {1} any more in block {2}; joins again",
                        unit.server.number, worker, unit.number);
                unit.session = random.nextLong();
                unit.sequence = 0;
                unit.next = unit.asked;
                unit.server.ask(unit, Message.JOIN);
            }
        } else if (unit.asked == Message.JOIN || done == unit.sequence) {
            if (length - Message.REPLY_HEADER != unit.bytes()) {
                return;
            }
            unit.target().putBytes(0, buffer, offset + Message.REPLY_HEADER, unit.bytes());
            if (unit.next != 0) {
                unit.server.ask(unit, unit.next);
                unit.next = 0;
            } else {
                unit.sequence += unit.asked == Message.PUSH ? 1 : 0;
                unit.asked = 0;
                unit.which = 0;
                unit.keptSteps = 0;
                awaited--;
            }
        }
    }
}
