package dev.starling.distributed.ps;

import dev.starling.distributed.Channels;
import dev.starling.distributed.PeerLostException;
import dev.starling.transport.Endpoint;
import java.nio.ByteOrder;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableDirectByteBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.NanoClock;

/**
 * A worker's way to one server, which may go away and come back, in another process even: then all that is under way is
 * asked for again, and the server sees by the numbers what it has done already. To be used under the group's lock.
 */
final class ServerLink {
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int PART = 16_000;
    private static final long RETRY_NS = 1_000_000_000L;
    private static final byte[] NOTHING = new byte[0];

    final int number;
    private final int worker;
    private final byte[] plan;
    private final NanoClock clock;
    private final ExpandableDirectByteBuffer message = new ExpandableDirectByteBuffer();
    private final Deque<Unit> queue = new ArrayDeque<>();
    Unit[] units;
    final List<TablePart> tables = new ArrayList<>();
    Endpoint endpoint;
    private int greeted;
    private boolean welcomed;
    /** Whether the server went on with what its directory held. */
    volatile boolean holds;
    /** Tells the server's process from one before it; 0 before the first. */
    private long process;
    private long triedNs;
    /** The last thing said beside requests that an answer is awaited to, or nothing. */
    private volatile byte[] question = NOTHING;
    private boolean isAsking;
    /** Whether the server has said farewell, and waits to hear that this is known. */
    private boolean isParting;

    ServerLink(int number, int worker, byte[] plan, NanoClock clock) {
        this.clock = clock;
        this.number = number;
        this.worker = worker;
        this.plan = plan;
    }

    /** Begins anew with a process that says that it is this server. */
    void connect(Endpoint to) {
        if (endpoint != to) {
            endpoint = to;
            greet();
        }
    }

    private void greet() {
        greeted = 0;
        welcomed = false;
        triedNs = clock.nanoTime();
    }

    /** Notes what a process says that is this server; returns whether it lacks what one before it acknowledged. */
    boolean hasForgotten(long newProcess, boolean newHolds) {
        boolean isAnother = process != 0 && newProcess != process;
        process = newProcess;
        holds = newHolds;
        return isAnother && !newHolds && (Arrays.stream(units).anyMatch(unit -> unit.sequence > 0)
                || tables.stream().anyMatch(TablePart::hasPushed));
    }

    void welcome() {
        if (welcomed) {
            return;
        }
        welcomed = true;
        queue.clear();
        for (Unit unit : units) {
            unit.isQueued = unit.asked != 0;
            if (unit.isQueued) {
                queue.add(unit);
            }
        }
        tables.forEach(TablePart::askAgain);
        isAsking = question.length > 0;
    }

    /** Returns whether the server went away while something is awaited of it. */
    boolean isMissed() {
        return endpoint != null && !endpoint.isConnected() && (question.length > 0 && !isParting
                || Arrays.stream(units).anyMatch(unit -> unit.asked != 0)
                || tables.stream().anyMatch(TablePart::isAsking));
    }

    boolean isConnected() {
        return endpoint != null && endpoint.isConnected();
    }

    /** Puts a unit's request in the queue. */
    void ask(Unit unit, int kind) {
        unit.asked = kind;
        if (!unit.isQueued) {
            unit.isQueued = true;
            queue.add(unit);
        }
    }

    /** Asks something that is asked again until {@link #answered}; the bytes come after kind and worker. */
    void ask(int kind, byte[] body) {
        byte[] whole = new byte[Channels.HEADER + 8 + body.length];
        int at = header(kind);
        message.getBytes(0, whole, 0, at);
        System.arraycopy(body, 0, whole, at, body.length);
        question = whole;
        isAsking = true;
    }

    void answered() {
        question = NOTHING;
        isAsking = false;
    }

    /** The server has said farewell; the question is answered as soon as it knows that it was heard. */
    void part() {
        isParting = question.length > 0;
    }

    boolean isAnswered() {
        return question.length == 0;
    }

    /** Says something once, or not at all if there is no room. */
    void tell(int kind, byte[] body) {
        if (welcomed && isConnected()) {
            int at = header(kind);
            message.putBytes(at, body);
            endpoint.send(message, 0, at + body.length);
        }
    }

    /** Tells of a loss; returns whether there was room, or nobody to be told. */
    boolean tell(PeerLostException loss) {
        return !isConnected() || endpoint.send(message, 0, Attendance.write(loss, message, header(Message.LOST)))
                != Endpoint.BACK_PRESSURED;
    }

    private int header(int kind) {
        message.putInt(0, Channels.PARAMETERS, Channels.ORDER);
        message.putInt(Channels.HEADER, kind, ORDER);
        message.putInt(Channels.HEADER + 4, worker, ORDER);
        return Channels.HEADER + 8;
    }

    /** Sends what there is room for. */
    void pump() {
        if (isParting && (!isConnected() || endpoint.send(message, 0, header(Message.PARTED)) == Endpoint.OK)) {
            isParting = false;
            answered();
        }
        if (!isConnected()) {
            return;
        }
        if (!welcomed) {
            hello();
            return;
        }
        if (question.length > 0 && !isParting) {
            long now = clock.nanoTime();
            if (isAsking || now - triedNs > RETRY_NS) {
                message.putBytes(0, question);
                isAsking = endpoint.send(message, 0, question.length) != Endpoint.OK;
                triedNs = now;
            }
        }
        while (!queue.isEmpty() && send(queue.peek())) {
            queue.remove().isQueued = false;
        }
        for (int t = 0; t < tables.size(); t++) {
            tables.get(t).pump();
        }
    }

    private void hello() {
        if (greeted == plan.length && clock.nanoTime() - triedNs > RETRY_NS) {
            greet();
        }
        while (greeted < plan.length) {
            int n = Math.min(PART, plan.length - greeted);
            int at = header(Message.HELLO);
            message.putInt(at, plan.length, ORDER);
            message.putInt(at + 4, greeted, ORDER);
            message.putBytes(at + 8, plan, greeted, n);
            if (endpoint.send(message, 0, at + 8 + n) != Endpoint.OK) {
                return;
            }
            greeted += n;
            triedNs = clock.nanoTime();
        }
    }

    private boolean send(Unit unit) {
        int kind = unit.asked;
        // The weights of worker 0 are those at the beginning, or of who comes back to a server that has lost its own.
        boolean isGiver = kind == Message.JOIN && (worker == 0 || unit.next != 0);
        for (int k = 0; isGiver && unit.keptSteps > 0 && k < unit.kept.length; k++) {
            if (!send(unit, Message.KEPT, unit.kept[k], unit.keptSteps, k + 1)) {
                return false;
            }
        }
        return switch (kind) {
            case Message.PUSH -> send(unit, kind, unit.gradient, unit.rate, 0);
            case Message.PULL -> send(unit, kind, null, 0, unit.which);
            default -> send(unit, kind, isGiver ? unit.weights : null, 0, 0);
        };
    }

    private boolean send(Unit unit, int kind, DirectBuffer payload, double rate, int flags) {
        int bytes = payload == null ? 0 : payload.capacity();
        begin(kind, unit.session, unit.sequence, unit.number, bytes / 4, rate, flags);
        int at = Channels.HEADER + Message.HEADER;
        if (bytes > 0) {
            message.putBytes(at, payload, 0, bytes);
        }
        return send(at + bytes);
    }

    /** Begins a request; returns the message, whose payload comes after both headers. */
    MutableDirectBuffer begin(int kind, long session, long sequence, int unit, int count, double rate, int flags) {
        int at = Channels.HEADER;
        message.putInt(0, Channels.PARAMETERS, Channels.ORDER);
        message.putInt(at + Message.KIND, kind, ORDER);
        message.putInt(at + Message.WORKER, worker, ORDER);
        message.putLong(at + Message.SESSION, session, ORDER);
        message.putLong(at + Message.SEQUENCE, sequence, ORDER);
        message.putInt(at + Message.UNIT, unit, ORDER);
        message.putInt(at + Message.COUNT, count, ORDER);
        message.putDouble(at + Message.RATE, rate, ORDER);
        message.putDouble(at + Message.WEIGHT, 1, ORDER);
        message.putLong(at + Message.FLAGS, flags, ORDER);
        return message;
    }

    /** Sends the request that was begun; if the way is closed, all is asked again when the server is back. */
    boolean send(int length) {
        return endpoint.send(message, 0, length) == Endpoint.OK;
    }

    @Override
    public String toString() {
        return "server " + number + (endpoint == null ? ", which nobody has been yet"
                : welcomed ? "" : ", which has not answered") + (endpoint == null || endpoint.isConnected() ? ""
                : ": " + endpoint.reason()) + "; waiting for " + Arrays.stream(units == null ? new Unit[0] : units)
                .filter(u -> u.asked != 0).count() + " blocks and "
                + tables.stream().filter(TablePart::isAsking).count() + " tables";
    }
}
