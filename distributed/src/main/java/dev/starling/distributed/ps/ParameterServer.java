package dev.starling.distributed.ps;

import dev.starling.distributed.Channels;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.Share;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Endpoint;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.agrona.DirectBuffer;

/**
 * Training with servers that hold the weights and take the optimiser's steps: workers push each gradient as soon as it
 * is final and get the new weights back. Servers and workers are members of one group; each says what it is.
 *
 * <pre>{@code
 * // in a server, until training ends:
 * ParameterServer.serve(group, 0, ServerConfig.in(directory));
 *
 * // in a worker:
 * try (ParameterServer servers = ParameterServer.worker(group, number).workers(4).servers(1)
 *         .consistency(new Consistency.Stale(4)).build()) {
 *     Trainer.of(model, loss, Adam.over(model).build()).data(batches).strategy(servers).build().run();
 * }
 * }</pre>
 *
 * <p>The servers follow the rule of the worker's {@link Optimizer}, whose rate goes with each gradient; what it learns
 * stays with them, but for worker 0, which takes it to checkpoints and from there to servers: of any number, or to
 * training without any. (Not with a {@link Builder#optimizer} of their own, nor the rows of tables.) The weights at the
 * beginning are those of worker 0; servers that find weights in their directory go on with those.
 *
 * <p>A server that is lost is waited for, and asked again for what it did not acknowledge. A worker that is lost is
 * missed by nobody, unless {@link Consistency.Synchronous}: then training ends. Confined to the training thread.
 */
public final class ParameterServer implements DistributionStrategy {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int BLOCK_LENGTH = 16_384;
    private static final int MOST_SUMMED = 1024;
    private static final int NOTE_EVERY = 16;
    private static final Duration TURN = Duration.ofMillis(200);

    private final Group group;
    private final Builder how;
    private final boolean isSynchronous;
    private final SecureRandom random = new SecureRandom();
    private TrainingState state;
    private ServerLink[] servers = {};
    private Replica replica;
    private final Map<EmbeddingTable, RemoteTable> tables = new LinkedHashMap<>();
    private boolean[] isPushed;
    private volatile int awaited;
    private volatile DistributedException failure;
    private volatile Map<String, String> furthest;
    private volatile boolean awaitsNotes;
    private volatile double[] total;
    private long round;
    private boolean isVoting;
    private boolean isEnding;
    private long steps;

    private ParameterServer(Group group, Builder how) {
        this.group = group;
        this.how = how;
        isSynchronous = how.consistency instanceof Consistency.Synchronous;
    }

    /**
     * Serves until all workers are done.
     *
     * @param number of this server, from 0
     * @param config its directory, if any, is shared by servers: each keeps a directory of its own in it
     * @throws ServerException if its files cannot be used
     * @throws DistributedException if the group ends, or no worker is left
     */
    public static void serve(Group group, int number, ServerConfig config) {
        new ServerNode(group, number, config).run();
    }

    /**
     * Begins a worker.
     *
     * @param number of this worker, from 0; a process that replaces another takes its number
     */
    public static Builder worker(Group group, int number) {
        return new Builder(group, number);
    }

    @Override
    public int rank() {
        return how.number;
    }

    @Override
    public int world() {
        return how.workers;
    }

    @Override
    public Share share() {
        return isSynchronous ? Share.part(how.number, how.workers) : Share.shard(how.number, how.workers);
    }

    // ---- beginning ----

    @Override
    public void start(TrainingState newState) {
        state = newState;
        List<EmbeddingTable> used = Rules.tables(state.model(), how.tables);
        int room = Math.min(BLOCK_LENGTH, (group.transport().maxMessageLength() - 128) / 4);
        Plan plan = new Plan(how.servers, how.workers, room, how.consistency, Rules.of(state, how.optimizer, used),
                Rules.ofTables(state, how.optimizer, used, how.servers));
        byte[] encoded = plan.encode();
        servers = new ServerLink[how.servers];
        for (int s = 0; s < servers.length; s++) {
            servers[s] = new ServerLink(s, how.number, encoded, group.transport()::nanoTime);
        }
        List<Parameter> parameters = state.optimizer().parameters();
        isPushed = new boolean[parameters.size()];
        replica = new Replica(parameters, plan, servers, random);
        for (int t = 0; t < used.size(); t++) {
            connect(used.get(t), plan, t);
        }
        if (how.number == 0) {
            carry();
        }
        group.channel(Channels.PARAMETERS, this::take);
        askAll(Message.JOIN);
        for (RemoteTable table : tables.values()) {
            ask(table.parts(), Message.JOIN);
        }
        awaitsNotes = isSynchronous && how.number > 0;
        await("to begin");
        awaitsNotes = false;
        replica.adopt();
        if (furthest != null && state.step() == 0 && !furthest.get("step").equals("0")) {
            state.restore(furthest);
        }
        if (isSynchronous && state.step() > 0) {
            // Worker 0 alone has read the checkpoint.
            sumBuffers(how.number == 0 ? 1 : 0);
        }
    }

    /** Has worker 0 carry what the optimiser keeps between checkpoints and servers, and tell where the run begins. */
    private void carry() {
        Optimizer optimizer = state.optimizer();
        if (how.optimizer == null) {
            replica.keep(optimizer);
            for (Unit[] each : replica.units()) {
                for (Unit unit : each) {
                    // Servers count the steps of all workers.
                    unit.keptSteps = optimizer.steps() * (isSynchronous ? 1 : how.workers);
                }
            }
        }
        if (isSynchronous || state.step() > 0) {
            group.locked(() -> servers[0].ask(Message.BEGIN, notes()));
        }
    }

    private void connect(EmbeddingTable table, Plan plan, int number) {
        Plan.Table planned = plan.tables().get(number);
        TablePart[] parts = new TablePart[servers.length];
        for (int s = 0; s < parts.length; s++) {
            parts[s] = new TablePart(servers[s], servers[s].units.length + number, plan, planned, random);
            servers[s].tables.add(parts[s]);
        }
        RemoteTable remote = new RemoteTable(plan, planned, parts, this::pull);
        tables.put(table, remote);
        table.connect(remote);
    }

    // ---- a step ----

    @Override
    public void gradient(int index, Tensor gradient) {
        isPushed[index] = true;
        // Lives until the end of the step, as the gradient does.
        Tensor dense = gradient.to(Device.cpu()).to(DType.F32).contiguous();
        push(index, dense.segment().address());
    }

    /** Queues a gradient, or that there is none, and sends what there is room for. */
    private void push(int index, long address) {
        double rate = state.optimizer().rate();
        group.locked(() -> {
            for (Unit unit : replica.units()[index]) {
                unit.rate = rate;
                unit.gradient.wrap(address + 4 * unit.block.from(), address == 0 ? 0 : unit.bytes());
                ask(unit, Message.PUSH);
            }
            pump();
        });
        group.wake();
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        for (int i = 0; i < isPushed.length; i++) {
            if (!isPushed[i]) {
                push(i, 0);
            }
            isPushed[i] = false;
        }
        for (RemoteTable table : tables.values()) {
            ask(table.gather(state.optimizer().rate()), Message.PUSH_ROWS);
        }
        await("for the weights after a step");
        replica.adopt();
        state.optimizer().resume(state.optimizer().steps() + 1);
        return false;
    }

    @Override
    public void afterStep() {
        if (!isSynchronous && steps++ % NOTE_EVERY == 0) {
            byte[] body = notes();
            group.locked(() -> servers[0].tell(Message.NOTES, body));
        }
    }

    /** Takes effect a step later, so that nobody waits for the votes of others. */
    @Override
    public boolean stops(boolean wanted) {
        if (!isSynchronous) {
            return wanted;
        }
        tally();
        if (!isEnding) {
            ask(new double[]{wanted ? 1 : 0}, 0, 1);
            isVoting = true;
        }
        return isEnding;
    }

    private void tally() {
        if (isVoting) {
            await("for the votes of all workers");
            isVoting = false;
            isEnding = total[0] > 0;
            round++;
        }
    }

    private byte[] notes() {
        StringBuilder lines = new StringBuilder();
        state.notes().forEach((name, value) -> lines.append(name).append('=').append(value).append('\n'));
        byte[] text = lines.toString().getBytes(StandardCharsets.UTF_8);
        return ByteBuffer.allocate(8 + text.length).order(ORDER).putLong(state.step()).put(text).array();
    }

    // ---- between steps ----

    @Override
    public void settle() {
        if (isSynchronous) {
            // Each has seen as much of each batch.
            sumBuffers(1.0 / how.workers);
        } else {
            askAll(Message.PULL);
            await("for the weights");
            replica.adopt();
        }
        for (int which = 1; which <= replica.mostKept(); which++) {
            fetchKept(which);
        }
        replica.adoptKept(state.optimizer());
    }

    private void fetchKept(int which) {
        group.locked(() -> {
            for (Unit[] each : replica.units()) {
                for (Unit unit : each) {
                    if (unit.kept.length >= which) {
                        unit.which = which;
                        ask(unit, Message.PULL);
                    }
                }
            }
            pump();
        });
        await("for what the rule keeps of the weights");
    }

    /** Sums running statistics over workers, each weighing as much as it says. */
    private void sumBuffers(double weight) {
        try (Scope scope = Scope.open("settle")) {
            for (Parameter p : state.model().state().values()) {
                if (p.isBuffer() && p.value().dtype().isFloating()) {
                    double[] values = p.value().to(Device.cpu()).to(DType.F64).mul(weight).toDoubles();
                    sum(values);
                    p.set(Tensor.of(values, p.shape().dims()));
                }
            }
        }
    }

    @Override
    public void sum(double[] values) {
        tally();
        for (int from = 0; from < values.length; from += MOST_SUMMED) {
            int n = Math.min(MOST_SUMMED, values.length - from);
            ask(values, from, n);
            await("for a sum over workers");
            System.arraycopy(total, 0, values, from, n);
            round++;
        }
    }

    /** Asks for the sum of some numbers. */
    private void ask(double[] values, int from, int n) {
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

    @Override
    public void finish() {
        tally();
        group.locked(() -> {
            for (ServerLink server : servers) {
                server.ask(Message.BYE, new byte[0]);
            }
        });
        await("to say goodbye");
    }

    // ---- waiting ----

    private void askAll(int kind) {
        group.locked(() -> {
            for (Unit[] each : replica.units()) {
                for (Unit unit : each) {
                    ask(unit, kind);
                }
            }
            pump();
        });
    }

    private void pull(TablePart[] parts, String why) {
        ask(parts, Message.PULL_ROWS);
        await(why);
    }

    private void ask(TablePart[] parts, int kind) {
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

    private void pump() {
        for (ServerLink server : servers) {
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

    /** Works until all that was asked is answered. */
    private void await(String what) {
        long begin = group.transport().nanoTime();
        long patience = group.config().patience().toNanos();
        while (!isThere()) {
            group.locked(this::pump);
            group.await(() -> isThere() || failure != null || isOver(), TURN);
            if (failure != null) {
                throw failure;
            }
            if (isOver()) {
                throw group.failure();
            }
            if (group.transport().nanoTime() - begin > patience && !isThere()) {
                throw late(what);
            }
        }
    }

    /** Tells whether there is no hope left; servers are reached while a new epoch forms, too. */
    private boolean isOver() {
        return group.isEnded() || isSynchronous && group.failure() != null;
    }

    private DistributedException late(String what) {
        StringBuilder who = new StringBuilder("worker " + how.number + " waited " + group.config().patience() + " "
                + what + ":");
        for (ServerLink server : servers) {
            Endpoint endpoint = server.endpoint;
            if (endpoint != null && !endpoint.isConnected()) {
                Duration unheard = Duration.ofNanos(group.transport().nanoTime() - endpoint.lastHeardNs());
                return new PeerLostException(how.workers + server.number, unheard, "it is " + server
                        + ", and has not come back within " + group.config().patience());
            }
            who.append(' ').append(server);
        }
        return new DistributedException(who.toString());
    }

    // ---- under the group's lock ----

    private void take(Endpoint from, DirectBuffer buffer, int offset, int length) {
        int kind = length < 8 ? 0 : buffer.getInt(offset, ORDER);
        if (kind == Message.DONE || kind == Message.UNKNOWN_SESSION) {
            if (length >= Message.REPLY_HEADER) {
                answer(buffer, offset, length);
            }
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
                hear(buffer.getStringWithoutLengthUtf8(offset + 8, length - 8));
                server.welcome();
            }
            case Message.REFUSED -> failure = new DistributedException("server " + number + " refused worker "
                    + how.number + ": " + buffer.getStringWithoutLengthUtf8(offset + 8, length - 8));
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
            case Message.BEGUN, Message.FAREWELL -> server.answered();
            default -> { }
        }
        server.pump();
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
            if (unit.asked == Message.PUSH && done == unit.sequence) {
                LOG.log(Level.DEBUG, "server {0} does not know worker {1} any more in block {2}; joins again",
                        unit.server.number, how.number, unit.number);
                unit.session = random.nextLong();
                unit.sequence = 0;
                unit.pushesNext = true;
                unit.server.ask(unit, Message.JOIN);
            }
        } else if (unit.asked == Message.JOIN || done == unit.sequence) {
            if (length - Message.REPLY_HEADER != unit.bytes()) {
                return;
            }
            unit.target().putBytes(0, buffer, offset + Message.REPLY_HEADER, unit.bytes());
            if (unit.pushesNext) {
                unit.pushesNext = false;
                unit.server.ask(unit, Message.PUSH);
            } else {
                unit.sequence += unit.asked == Message.PUSH ? 1 : 0;
                unit.asked = 0;
                unit.which = 0;
                unit.keptSteps = 0;
                awaited--;
            }
        }
    }

    /** Gives the memory back. */
    @Override
    public void close() {
        group.channel(Channels.PARAMETERS, null);
        tables.forEach((table, remote) -> {
            table.connect(null);
            remote.close();
        });
        tables.clear();
        if (replica != null) {
            replica.close();
            replica = null;
        }
    }

    /** Gathers how a worker trains; the same for all workers but for the number. */
    public static final class Builder {
        private final Group group;
        private final int number;
        private int workers;
        private int servers = 1;
        private Consistency consistency = new Consistency.Asynchronous();
        private ServerOptimizer optimizer;
        private List<EmbeddingTable> tables = List.of();

        private Builder(Group group, int number) {
            this.group = group;
            this.number = number;
            workers = Math.max(1, group.world() - 1);
        }

        /** Sets how many workers there are; all members but one unless told. */
        public Builder workers(int count) {
            workers = count;
            return this;
        }

        /** Sets how many servers there are; 1 unless told. */
        public Builder servers(int count) {
            servers = count;
            return this;
        }

        /** Sets how far workers may be apart; {@link Consistency.Asynchronous} unless told. */
        public Builder consistency(Consistency together) {
            consistency = together;
            return this;
        }

        /** Sets the rule that servers follow, in place of that of the worker's optimiser, which gives the rate only. */
        public Builder optimizer(ServerOptimizer rule) {
            optimizer = rule;
            return this;
        }

        /** Adds tables that are not layers of the model; those that are, are found. The same on all workers. */
        public Builder tables(EmbeddingTable... others) {
            tables = List.of(others);
            return this;
        }

        /** Makes the strategy. */
        public ParameterServer build() {
            if (number < 0 || number >= workers || servers < 1) {
                throw new IllegalArgumentException("0 <= number < workers and servers > 0 must hold, got number "
                        + number + ", " + workers + " workers and " + servers + " servers");
            }
            return new ParameterServer(group, this);
        }
    }
}
