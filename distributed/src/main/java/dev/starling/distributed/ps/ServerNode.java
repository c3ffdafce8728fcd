package dev.starling.distributed.ps;

import dev.starling.distributed.Channels;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.Member;
import dev.starling.distributed.PeerLostException;
import dev.starling.transport.Endpoint;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Stream;
import org.agrona.DirectBuffer;
import org.agrona.ExpandableDirectByteBuffer;
import org.agrona.concurrent.ControlledMessageHandler;
import org.agrona.concurrent.UnsafeBuffer;
import org.agrona.concurrent.ringbuffer.OneToOneRingBuffer;
import org.agrona.concurrent.ringbuffer.RingBufferDescriptor;

/**
 * A server in its group: carries requests to the core and answers back, and says who is there. Messages are handled
 * under the group's lock, by whichever thread works for the group; all else in {@link #run}'s thread.
 */
final class ServerNode {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int REPLIES = 4 << 20;
    private static final long TELL_NS = 50_000_000L;
    private static final long WORKING_NS = 1_000_000_000L;
    private static final Duration TURN = Duration.ofSeconds(1);

    private final Group group;
    private final int number;
    private final ServerConfig config;
    private final ExpandableDirectByteBuffer message = new ExpandableDirectByteBuffer();
    private final Backlog backlog = new Backlog();
    private final OneToOneRingBuffer replies = new OneToOneRingBuffer(new UnsafeBuffer(
            ByteBuffer.allocateDirect(REPLIES + RingBufferDescriptor.TRAILER_LENGTH)));
    private final ControlledMessageHandler sender = this::send;
    private final Runnable turn = this::turn;
    private long toldNs = Long.MIN_VALUE;
    private final Set<Endpoint> servers = new HashSet<>();
    /** Those of them that were told that this is one, too. */
    private final Set<Endpoint> announcedTo = new HashSet<>();
    private final PlanParts plans = new PlanParts();
    /** Tells this server from one that takes its place. */
    private final long process = new SecureRandom().nextLong();
    private Plan plan;
    /** {@code null} before the first worker comes, and where workers do not take steps together. */
    private Attendance attendance;
    /** Who knows why synchronous training ends. */
    private final Set<Endpoint> told = new HashSet<>();
    private long endingNs;
    private WorkerSeat[] workers = {};
    private Sums sums;
    private final RowTasks tasks = new RowTasks();
    private long workingNs = Long.MIN_VALUE;
    private long notedStep = -1;
    private byte[] notes = new byte[0];
    private volatile ServerCore core;
    private volatile boolean done;
    private long lastSeenNs;
    private volatile RuntimeException failure;

    ServerNode(Group group, int number, ServerConfig config) {
        this.group = group;
        this.number = number;
        this.config = config;
        lastSeenNs = group.transport().nanoTime();
    }

    /** Serves until all workers are done. */
    void run() {
        group.channel(Channels.PARAMETERS, this::take);
        try {
            while (!done) {
                group.await(this::isInterrupted, TURN);
                if (failure != null) {
                    throw failure;
                }
                if (plan != null && core == null) {
                    open();
                }
                if (!done && group.isEnded()) {
                    throw group.failure();
                }
                if (!done && group.transport().nanoTime() - lastSeenNs > group.config().patience().toNanos()) {
                    throw new DistributedException("server " + number + " has seen no worker for "
                            + group.config().patience());
                }
            }
        } finally {
            group.channel(Channels.PARAMETERS, null);
            if (attendance != null) {
                attendance.close();
            }
            if (core != null) {
                core.close();
            }
        }
    }

    /** Does what is to do; tells whether there is something that must not be done while waiting. */
    private boolean isInterrupted() {
        if (core != null) {
            core.check();
        }
        group.locked(turn);
        return done || failure != null || plan != null && core == null || group.isEnded();
    }

    /** Opens what the directory holds, which may take seconds: outside of the lock, so that peers are heard. */
    private void open() {
        ServerConfig own = config.directory() == null ? config
                : config.directory(config.directory().resolve("server-" + number));
        ServerCore opened;
        try {
            opened = ServerCore.open(own, plan, number, this::offer);
        } catch (ServerException e) {
            group.locked(() -> {
                for (WorkerSeat worker : workers) {
                    if (worker.endpoint != null) {
                        refuse(worker.endpoint, e.getMessage());
                    }
                }
            });
            throw e;
        }
        LOG.log(Level.INFO, "server {0} of {1} is ready: {2} units, {3}", number, plan.servers(), opened.units(),
                own.directory() == null ? "in memory" : "in " + own.directory());
        core = opened;
        group.locked(() -> sayToAll(Message.WELCOME));
    }

    /** Queues an answer; called by the reply stage. */
    private boolean offer(int worker, DirectBuffer buffer, int length) {
        int at = replies.tryClaim(worker + 1, Channels.HEADER + length);
        if (at < 0) {
            return false;
        }
        replies.buffer().putInt(at, Channels.PARAMETERS, Channels.ORDER);
        replies.buffer().putBytes(at + Channels.HEADER, buffer, 0, length);
        replies.commit(at);
        return true;
    }

    // ---- under the group's lock ----

    private void turn() {
        announce();
        if (isOver()) {
            end(attendance.failure());
            return;
        }
        if (core == null) {
            return;
        }
        backlog.drainTo(core);
        replies.controlledRead(sender, 64);
        tellOfTasks();
        boolean isAnyFinished = false;
        boolean isAnyAwaited = false;
        for (int w = 0; w < workers.length; w++) {
            WorkerSeat worker = workers[w];
            isAnyFinished |= worker.finished;
            isAnyAwaited |= worker.isAwaited();
            if (worker.endpoint != null && !worker.endpoint.isConnected()) {
                LOG.log(worker.finished ? Level.DEBUG : Level.WARNING, "server {0}: worker {1} is gone: {2}", number, w,
                        worker.endpoint.reason());
                worker.vacate();
            }
            for (int owes = worker.owed; owes != 0; owes &= owes - 1) {
                say(w, Integer.numberOfTrailingZeros(owes));
            }
            while (worker.leaving < core.units() && backlog.isEmpty() && core.leave(w, worker.leaving)) {
                worker.leaving++;
            }
            if (worker.endpoint != null) {
                lastSeenNs = group.transport().nanoTime();
            }
        }
        if (isAnyAwaited && attendance == null && group.failure() == null) {
            giveUpAbsent();
        }
        done = isAnyFinished && isDeserted();
        if (attendance == null && group.isCoordinatorLost()
                && Arrays.stream(workers).allMatch(worker -> worker.endpoint == null)) {
            // Workers have gone on without this server, perhaps because it was stopped, and wait for it.
            group.rejoin();
        }
    }

    /** Has nobody wait for a worker that was never here, and is none of the members; it may come later. */
    private void giveUpAbsent() {
        if (group.view().members().stream().map(member -> group.endpoint(member.id())).allMatch(
                endpoint -> endpoint == null || servers.contains(endpoint) || isWorker(endpoint))) {
            Arrays.stream(workers).filter(WorkerSeat::isAwaited).forEach(WorkerSeat::vacate);
        }
    }

    private boolean isWorker(Endpoint endpoint) {
        return Arrays.stream(workers).anyMatch(worker -> worker.endpoint == endpoint);
    }

    /** Tells whether somebody is missing of those who take steps together, before the first of them was done. */
    private boolean isOver() {
        if (attendance == null) {
            return false;
        }
        for (WorkerSeat worker : workers) {
            if (worker.finished) {
                return false;
            }
        }
        attendance.look();
        return attendance.failure() != null;
    }

    /** Tells the others why training ends; when they know, this server ends, too. */
    private void end(DistributedException why) {
        long now = group.transport().nanoTime();
        endingNs = endingNs == 0 ? now : endingNs;
        boolean isKnown = true;
        for (Endpoint each : attendance.others()) {
            if (each.isConnected() && !servers.contains(each) && !told.contains(each)) {
                isKnown &= tell(each, why);
            }
        }
        if (isKnown || now - endingNs > group.transport().config().livenessTimeout().toNanos()) {
            failure = why;
        }
    }

    private boolean tell(Endpoint to, DistributedException why) {
        if (why instanceof PeerLostException loss) {
            int end = Attendance.write(loss, message, header(Message.LOST));
            if (to.send(message, 0, end) == Endpoint.BACK_PRESSURED) {
                return false;
            }
        } else {
            refuse(to, why.getMessage());
        }
        told.add(to);
        return true;
    }

    /** Tells worker 0 of its task with rows, and all others from time to time that it goes on. */
    private void tellOfTasks() {
        if (workers[0].endpoint != null && tasks.isNews()) {
            int at = header(Message.TASK_STATE);
            message.putLong(at, tasks.asked(), ORDER);
            message.putInt(at + 8, tasks.state(), ORDER);
            message.putLong(at + 12, tasks.progress(), ORDER);
            byte[] text = tasks.text().getBytes(StandardCharsets.UTF_8);
            message.putBytes(at + 20, text);
            workers[0].endpoint.send(message, 0, at + 20 + text.length);
        }
        long now = group.transport().nanoTime();
        if ((workingNs == Long.MIN_VALUE || now - workingNs > WORKING_NS) && tasks.isWorking()) {
            workingNs = now;
            for (WorkerSeat worker : workers) {
                if (worker.endpoint != null) {
                    worker.endpoint.send(message, 0, header(Message.WORKING));
                }
            }
        }
    }

    /** Tells whether all members that are here, or on their way, are servers or workers that are done. */
    private boolean isDeserted() {
        if (attendance == null && group.failure() != null && !group.isCoordinatorLost()) {
            return false;
        }
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            boolean isDone = endpoint == null || !endpoint.isConnected() || servers.contains(endpoint);
            for (int w = 0; !isDone && w < workers.length; w++) {
                isDone = workers[w].endpoint == endpoint && workers[w].isDone(group.transport(), core.units());
            }
            if (!isDone) {
                return false;
            }
        }
        return true;
    }

    /** Tells all that this is a server; who has not shown what it is, again: workers answer when they begin. */
    private void announce() {
        long now = group.transport().nanoTime();
        if (toldNs != Long.MIN_VALUE && now - toldNs < TELL_NS) {
            return;
        }
        toldNs = now;
        for (Member member : group.view().members()) {
            Endpoint endpoint = group.endpoint(member.id());
            if (endpoint != null && endpoint.isConnected() && !announcedTo.contains(endpoint) && !isWorker(endpoint)
                    && endpoint.send(message, 0, header(Message.HERE)) == Endpoint.OK && servers.contains(endpoint)) {
                announcedTo.add(endpoint);
            }
        }
    }

    private int header(int kind) {
        message.putInt(0, Channels.PARAMETERS, Channels.ORDER);
        message.putInt(Channels.HEADER, kind, ORDER);
        message.putInt(Channels.HEADER + 4, number, ORDER);
        return Channels.HEADER + 8;
    }

    private ControlledMessageHandler.Action send(int type, DirectBuffer buffer, int offset, int length) {
        Endpoint to = workers[type - 1].endpoint;
        return to != null && to.send(buffer, offset, length) == Endpoint.BACK_PRESSURED
                ? ControlledMessageHandler.Action.ABORT : ControlledMessageHandler.Action.CONTINUE;
    }

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        if (length < 8) {
            return;
        }
        int kind = buffer.getInt(offset, ORDER);
        int worker = buffer.getInt(offset + 4, ORDER);
        if (kind == Message.HERE) {
            servers.add(from);
        } else if (kind == Message.HELLO) {
            hello(from, worker, buffer, offset + 8, length - 8);
        } else if (worker < 0 || worker >= workers.length || workers[worker].endpoint != from) {
            LOG.log(Level.DEBUG, "server {0} refused a message of who is not worker {1}", number, worker);
        } else if (kind >= Message.JOIN && kind <= Message.PULL_ROWS || kind == Message.KEPT) {
            receive(buffer, offset, length);
        } else {
            note(from, kind, worker, buffer, offset + 8, length - 8);
        }
    }

    private void receive(DirectBuffer buffer, int offset, int length) {
        try {
            if (core == null || !backlog.isEmpty() || !core.offer(buffer, offset, length)) {
                backlog.add(buffer, offset, length);
            }
        } catch (ServerException e) {
            // Not this thread's to deal with: it works for the whole group.
            failure = e;
        }
    }

    private void note(Endpoint from, int kind, int worker, DirectBuffer buffer, int offset, int length) {
        switch (kind) {
            case Message.SUM -> {
                int n = length < 12 ? -1 : buffer.getInt(offset + 8, ORDER);
                if (n < 0 || length != 12 + 8L * n) {
                    return;
                }
                double[] values = new double[n];
                for (int i = 0; i < n; i++) {
                    values[i] = buffer.getDouble(offset + 12 + 8 * i, ORDER);
                }
                long round = buffer.getLong(offset, ORDER);
                if (sums.add(worker, round, values)) {
                    sayToAll(Message.TOTAL);
                } else if (sums.round() == round) {
                    say(worker, Message.TOTAL);
                }
            }
            case Message.LOST -> {
                if (attendance != null) {
                    attendance.lose(from, buffer, offset, length);
                }
            }
            case Message.NOTES -> take(buffer, offset, length);
            case Message.BEGIN -> {
                take(buffer, offset, length);
                if (core != null) {
                    sayToAll(Message.WELCOME);
                }
                say(worker, Message.BEGUN);
            }
            case Message.TASK -> task(worker, buffer, offset, length);
            case Message.BYE -> say(worker, Message.FAREWELL);
            case Message.PARTED -> workers[worker].parted = true;
            default -> LOG.log(Level.WARNING, "server {0} refused a message of an unknown kind from worker {1}", number,
                    worker);
        }
    }

    private void task(int worker, DirectBuffer buffer, int offset, int length) {
        if (worker != 0) {
            return;
        }
        byte[] wish = new byte[length];
        buffer.getBytes(offset, wish);
        try {
            tasks.take(core, wish);
        } catch (ServerException e) {
            failure = e;
        } catch (IOException | RuntimeException e) {
            LOG.log(Level.WARNING, "server {0} refused a malformed task: {1}", number, e);
        }
    }

    private void take(DirectBuffer buffer, int offset, int length) {
        long step = length < 8 ? -1 : buffer.getLong(offset, ORDER);
        if (step > notedStep && length < Channels.HEADER + 16_000) {
            notedStep = step;
            notes = new byte[length - 8];
            buffer.getBytes(offset + 8, notes);
        }
    }

    private void sayToAll(int kind) {
        for (int w = 0; w < workers.length; w++) {
            say(w, kind);
        }
    }

    /** Says something to a worker, if it is there; as soon as there is room, or this would be missed for long. */
    private void say(int worker, int kind) {
        Endpoint to = workers[worker].endpoint;
        if (to == null) {
            return;
        }
        int at = header(kind);
        int length = switch (kind) {
            case Message.WELCOME -> {
                message.putInt(at, core.holdsEarlier() ? 1 : 0, ORDER);
                message.putLong(at + 4, process, ORDER);
                message.putBytes(at + 12, notes);
                yield at + 12 + notes.length;
            }
            case Message.TOTAL -> total(at);
            default -> at;
        };
        boolean isSaid = to.send(message, 0, length) != Endpoint.BACK_PRESSURED;
        int owed = workers[worker].owed;
        workers[worker].owed = isSaid ? owed & ~(1 << kind) : owed | 1 << kind;
        if (kind == Message.FAREWELL && isSaid) {
            workers[worker].finish(group.transport().nanoTime());
        }
    }

    private int total(int at) {
        message.putLong(at, sums.round(), ORDER);
        message.putInt(at + 8, sums.total().length, ORDER);
        for (int i = 0; i < sums.total().length; i++) {
            message.putDouble(at + 12 + 8 * i, sums.total()[i], ORDER);
        }
        return at + 12 + 8 * sums.total().length;
    }

    /** Puts the parts of a plan together. */
    private void hello(Endpoint from, int worker, DirectBuffer buffer, int offset, int length) {
        try {
            byte[] whole = plans.add(from, buffer, offset, length);
            if (whole != null) {
                admit(from, worker, whole);
            }
        } catch (IOException e) {
            refuse(from, e.getMessage());
        }
    }

    private void admit(Endpoint from, int worker, byte[] bytes) {
        Plan decoded;
        try {
            decoded = Plan.decode(bytes);
        } catch (IOException | RuntimeException e) {
            refuse(from, "the plan is malformed: " + e.getMessage());
            return;
        }
        if (plan == null) {
            if (number >= decoded.servers()) {
                refuse(from, "there are " + decoded.servers() + " servers in the plan, this is number " + number);
                return;
            }
            workers = Stream.generate(WorkerSeat::new).limit(decoded.workers()).toArray(WorkerSeat[]::new);
            sums = new Sums(decoded.workers());
            plan = decoded;
            if (plan.consistency() instanceof Consistency.Synchronous) {
                attendance = new Attendance(group, plan.workers() + plan.servers(), servers::contains);
            }
        }
        String difference = plan.difference(decoded);
        if (!difference.isEmpty() || worker < 0 || worker >= workers.length) {
            refuse(from, "worker " + worker + " of " + workers.length + " has " + (difference.isEmpty() ? "no such "
                    + "number" : difference) + "; set all workers up alike");
            return;
        }
        if (attendance != null && attendance.failure() != null) {
            tell(from, attendance.failure());
            return;
        }
        WorkerSeat seat = workers[worker];
        if (!seat.mayTake(from, group.transport(), attendance != null)) {
            if (seat.isDefended) {
                refuse(from, "there is another worker " + worker + (attendance != null ? ", and nobody can take its"
                        + " place in synchronous training" : ", which goes on; give each a number of its own"));
            }
            return;
        }
        seat.take(from);
        if (core != null) {
            say(worker, Message.WELCOME);
        }
    }

    private void refuse(Endpoint to, String why) {
        LOG.log(Level.WARNING, "server {0} refused a worker: {1}", number, why);
        int at = header(Message.REFUSED);
        byte[] text = why.getBytes(StandardCharsets.UTF_8);
        message.putBytes(at, text);
        to.send(message, 0, at + text.length);
    }
}
