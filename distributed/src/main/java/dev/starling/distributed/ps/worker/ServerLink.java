package dev.starling.distributed.ps.worker;

import dev.starling.distributed.group.Channels;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.transport.Endpoint;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Objects;
import org.agrona.ExpandableDirectByteBuffer;
import org.agrona.MutableDirectBuffer;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.jspecify.annotations.Nullable;

/**
 * A worker's connection to one server. The server may be lost and return, even as another process; the link then
 * repeats all open requests, and the server recognises by their sequence numbers which of them it has already applied.
 * Used under the group's lock.
 */
public final class ServerLink {
    private static final long RETRY_NS = 1_000_000_000L;

    public final int number;
    final int worker;
    private final byte[] plan;
    private final NanoClock clock;
    private final ExpandableDirectByteBuffer message = new ExpandableDirectByteBuffer();
    private final UnsafeBuffer control = new UnsafeBuffer(0, 0);
    /** By number: blocks, then tables. */
    final List<UnitRequest> units = new ArrayList<>();
    /** Those that have something to send. */
    private final Deque<UnitRequest> queue = new ArrayDeque<>();
    /** {@code null} before the first connection. */
    @Nullable Endpoint endpoint;
    /** Bytes of the plan that were sent to the present process. */
    private int planBytesSent;
    private boolean welcomed;
    /** Whether the server continued with the weights or rows in its directory. */
    private volatile boolean holds;
    /** Random number of the server's process, by which a restart is recognised; 0 before the first welcome. */
    private long process;
    private long triedNs;
    /** The last message that needs an answer. */
    private @Nullable SessionMessage question;
    private volatile Answer answer = Answer.RECEIVED;

    /** What a link does about its question. */
    private enum Answer {
        /** The question has yet to be sent, or sent again. */
        UNSENT,
        AWAITED,
        /** The server has sent its farewell and waits for the confirmation. */
        UNCONFIRMED,
        /** There is no open question. */
        RECEIVED
    }

    public ServerLink(int number, int worker, byte[] plan, NanoClock clock) {
        this.clock = clock;
        this.number = number;
        this.worker = worker;
        this.plan = plan;
    }

    /** Connects to the process that is this server now. */
    public void connect(Endpoint to) {
        if (endpoint != to) {
            endpoint = to;
            restartHello();
        }
    }

    private void restartHello() {
        planBytesSent = 0;
        welcomed = false;
        triedNs = clock.nanoTime();
    }

    /** Stores which process is the server; returns whether it lacks updates that an earlier process acknowledged. */
    boolean hasLostState(long newProcess, boolean newHolds) {
        boolean restarted = process != 0 && newProcess != process;
        process = newProcess;
        holds = newHolds;
        return restarted && !newHolds && units.stream().anyMatch(UnitRequest::hasPushed);
    }

    /** Returns whether the server continued with the weights or rows in its directory. */
    public boolean holds() {
        return holds;
    }

    /** Queues all open requests again, as the server may not have received them. */
    void onWelcome() {
        if (welcomed) {
            return;
        }
        welcomed = true;
        queue.clear();
        for (UnitRequest unit : units) {
            unit.queued = false;
            if (unit.isOpen()) {
                unit.restart();
                queue(unit);
            }
        }
        answer = answer == Answer.AWAITED ? Answer.UNSENT : answer;
    }

    /** Returns whether the connection is lost while a request is open. */
    boolean isMissed() {
        return endpoint != null && !endpoint.isConnected() && (answer == Answer.UNSENT || answer == Answer.AWAITED
                || units.stream().anyMatch(UnitRequest::isOpen));
    }

    boolean isConnected() {
        return endpoint != null && endpoint.isConnected();
    }

    /** Queues a unit that has something to send. */
    void queue(UnitRequest unit) {
        if (!unit.queued) {
            unit.queued = true;
            queue.add(unit);
        }
    }

    /** Sends a {@code Begin} or a {@code Goodbye}, and repeats it until it is answered. */
    public void ask(SessionMessage what) {
        question = what;
        answer = Answer.UNSENT;
    }

    /** Handles the answer to a {@code Begin}. */
    void onBegun() {
        answer = question instanceof SessionMessage.Begin ? Answer.RECEIVED : answer;
    }

    /** Handles the server's farewell. The goodbye counts as answered once the confirmation is sent. */
    void onFarewell() {
        answer = isAnswered() ? Answer.RECEIVED : Answer.UNCONFIRMED;
    }

    boolean isAnswered() {
        return answer == Answer.RECEIVED;
    }

    /** Sends a message once, or drops it if the link is not ready or has no room. */
    void send(SessionMessage what) {
        if (welcomed && isConnected()) {
            offer(what.encode(worker));
        }
    }

    /** Sends a loss; returns false if the link has no room for it. */
    boolean sendLoss(SessionMessage loss) {
        return !isConnected() || offer(loss.encode(worker)) != Endpoint.BACK_PRESSURED;
    }

    private int offer(byte[] encoded) {
        control.wrap(encoded);
        return Objects.requireNonNull(endpoint).send(control, 0, encoded.length);
    }

    /** Sends as much as the link accepts. */
    void pump() {
        if (answer == Answer.UNCONFIRMED && (!isConnected()
                || offer(new SessionMessage.FarewellConfirmed().encode(worker)) == Endpoint.OK)) {
            answer = Answer.RECEIVED;
        }
        if (!isConnected()) {
            return;
        }
        if (!welcomed) {
            sendHello();
            return;
        }
        if (answer == Answer.UNSENT || answer == Answer.AWAITED && clock.nanoTime() - triedNs > RETRY_NS) {
            byte[] asked = Objects.requireNonNull(question).encode(worker);
            answer = offer(asked) == Endpoint.OK ? Answer.AWAITED : Answer.UNSENT;
            triedNs = clock.nanoTime();
        }
        while (!queue.isEmpty() && queue.peek().send()) {
            queue.remove().queued = false;
        }
    }

    private void sendHello() {
        if (planBytesSent == plan.length && clock.nanoTime() - triedNs > RETRY_NS) {
            restartHello();
        }
        while (planBytesSent < plan.length) {
            int n = Math.min(SessionMessage.MAX_PART_BYTES, plan.length - planBytesSent);
            byte[] part = Arrays.copyOfRange(plan, planBytesSent, planBytesSent + n);
            if (offer(new SessionMessage.Hello(plan.length, planBytesSent, part).encode(worker)) != Endpoint.OK) {
                return;
            }
            planBytesSent += n;
            triedNs = clock.nanoTime();
        }
    }

    /** Writes both headers of a request; returns the message, to which the caller adds other fields and the payload. */
    MutableDirectBuffer begin(int kind, long session, long sequence, int unit, int count) {
        int at = Channels.HEADER;
        message.putInt(0, Message.CHANNEL, Channels.ORDER);
        message.putInt(at + Message.KIND, kind, Message.ORDER);
        message.putInt(at + Message.WORKER, worker, Message.ORDER);
        message.putLong(at + Message.SESSION, session, Message.ORDER);
        message.putLong(at + Message.SEQUENCE, sequence, Message.ORDER);
        message.putInt(at + Message.UNIT, unit, Message.ORDER);
        message.putInt(at + Message.COUNT, count, Message.ORDER);
        message.putDouble(at + Message.RATE, 0, Message.ORDER);
        message.putDouble(at + Message.WEIGHT, 1, Message.ORDER);
        message.putInt(at + Message.LAST, 0, Message.ORDER);
        message.putInt(at + Message.SLOT, 0, Message.ORDER);
        return message;
    }

    /** Sends the request from {@link #begin}. If the connection is lost, {@link #onWelcome} queues it again. */
    boolean send(int length) {
        return Objects.requireNonNull(endpoint).send(message, 0, length) == Endpoint.OK;
    }

    @Override
    public String toString() {
        return "server " + number + (endpoint == null ? ", which has not joined the group yet"
                : welcomed ? "" : ", which has not answered") + (endpoint == null || endpoint.isConnected() ? ""
                : ": " + endpoint.reason()) + ", waiting for " + open(BlockRequest.class) + " blocks and "
                + open(TablePart.class) + " tables";
    }

    private long open(Class<? extends UnitRequest> type) {
        return units.stream().filter(UnitRequest::isOpen).filter(type::isInstance).count();
    }
}
