package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.System.Logger.Level;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

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
 * <p>The servers follow the rule of the worker's {@link Optimizer}, or one of their own ({@link Builder#optimizer});
 * the rate goes with each gradient. What the rule learns stays with them, but for worker 0, which takes it to
 * checkpoints and from there to servers of any number; what an optimiser's rule learned also to training without any.
 * The rows of tables servers write to checkpoints themselves, each its own, while training goes on, and read what is
 * theirs from there: all of them need to see the directory of checkpoints, at the same path. The weights at the
 * beginning are those of worker 0; servers that find weights in their directory go on with those, and worker 0 warns if
 * it has read a checkpoint that was to be gone on from.
 *
 * <p>A server that is lost is waited for, and asked again for what it did not acknowledge. A worker that is lost is
 * missed by nobody. Not so with {@link Consistency.Synchronous}: there training ends on all others, servers too, with
 * a {@link PeerLostException} that names who was lost first, even where the group goes on without that one, and nobody
 * can take its place. Confined to the training thread.
 */
public final class ParameterServer implements DistributionStrategy {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final ByteOrder ORDER = ByteOrder.LITTLE_ENDIAN;
    private static final int BLOCK_LENGTH = 16_384;
    private static final int NOTE_EVERY = 16;

    private final Group group;
    private final Builder how;
    private final boolean isSynchronous;
    private final SecureRandom random = new SecureRandom();
    private TrainingState state;
    /** {@code null} before the start, and where nobody waits for all others. */
    private Agreement agreement;
    private Client client;
    private Replica replica;
    /** {@code null} where the host sees gradients. */
    private GradientCopies copies;
    /** Gradients of other types as f32, which have to stay until servers have them. */
    private final List<Tensor> held = new ArrayList<>();
    private final Map<EmbeddingTable, RemoteTable> tables = new LinkedHashMap<>();
    /** What servers' own rules keep, where this worker takes that to checkpoints. */
    private final List<Parameter> own = new ArrayList<>();
    private RowErrand saving;
    private boolean[] isPushed;
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
     * @throws PeerLostException if another was lost of those who take steps together
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
    public boolean stepsElsewhere() {
        return true;
    }

    @Override
    public Share share() {
        return agreement != null ? agreement.share() : how.ownData ? new Share.Own()
                : isSynchronous ? Share.part(how.number, how.workers) : Share.shard(how.number, how.workers);
    }

    // ---- beginning ----

    @Override
    public void start(TrainingState newState) {
        state = newState;
        List<EmbeddingTable> used = Rules.tables(state.model(), how.tables);
        int room = Math.min(BLOCK_LENGTH, (group.transport().maxMessageLength() - 128) / 4);
        Plan plan = new Plan(how.servers, how.workers, room, how.consistency, Rules.of(state, how.optimizer, used),
                Rules.ofTables(state, how.optimizer, used, how.servers));
        client = new Client(group, how.number, plan, isSynchronous, random);
        agreement = isSynchronous ? new Agreement(client, how.number, how.workers, how.proportional) : null;
        List<Parameter> parameters = state.optimizer().parameters();
        isPushed = new boolean[parameters.size()];
        replica = new Replica(parameters, plan, client.servers, random);
        copies = GradientCopies.of(group, parameters);
        for (int t = 0; t < used.size(); t++) {
            connect(used.get(t), plan, t);
        }
        if (how.number == 0) {
            carry(plan);
        }
        client.open();
        if (how.number == 0) {
            restoreRows(used);
        }
        client.ask(replica.units(), Message.JOIN);
        for (RemoteTable table : tables.values()) {
            client.ask(table.parts(), Message.JOIN);
        }
        if (isSynchronous && how.number > 0) {
            client.awaitWithNotes("to begin, with the weights of worker 0");
        } else {
            client.await(how.number == 0 ? "to begin" : "to begin, with the weights of worker 0");
        }
        replica.adopt();
        if (how.number == 0 && state.step() > 0) {
            compareToCheckpoint(used);
        }
        Map<String, String> furthest = client.furthest();
        if (furthest != null && state.step() == 0 && !furthest.get("step").equals("0")) {
            state.restore(furthest);
        }
        if (isSynchronous && state.step() > 0) {
            // Worker 0 alone has read the checkpoint.
            agreement.sumBuffers(state.model(), how.number == 0 ? 1 : 0);
        }
        if (isSynchronous) {
            agreement.requireAlike(how.ownData);
            if (how.ownData) {
                agreement.divideOwn(state.rows());
            }
        }
    }

    /** Has worker 0 carry what rules keep between checkpoints and servers, and tell where the run begins. */
    private void carry(Plan plan) {
        Optimizer optimizer = state.optimizer();
        List<List<Parameter>> keepers = new ArrayList<>();
        for (int i = 0; i < plan.dense().size(); i++) {
            boolean isKnown = how.optimizer == null;
            if (isKnown) {
                keepers.add(optimizer.stateOf(i));
            } else {
                keepers.add(new ArrayList<>());
                isKnown = keep(plan.dense().get(i), optimizer.parameters().get(i), keepers.getLast());
            }
            for (Unit unit : replica.units()[i]) {
                // Servers count the steps of all workers.
                unit.keptSteps = isKnown ? optimizer.steps() * (isSynchronous ? 1 : how.workers) : 0;
            }
        }
        replica.keep(keepers);
        if (isSynchronous || state.step() > 0) {
            client.askFirst(Message.BEGIN, notes());
        }
    }

    /** Makes room for what a rule of servers' own keeps; returns whether a checkpoint told what that was. */
    private boolean keep(Plan.Dense dense, Parameter weights, List<Parameter> into) {
        boolean isKnown = true;
        for (int k = 0; k < dense.rule().slots() && dense.count() > 0; k++) {
            Parameter kept;
            try (Tensor zeros = Tensor.zeros(weights.shape().dims())) {
                kept = Parameter.buffer(zeros);
            }
            into.add(kept);
            own.add(kept);
            isKnown &= state.keep(dense.rule().getClass().getSimpleName() + k + '.' + dense.name(), kept);
        }
        return isKnown;
    }

    /** Has servers read their rows before anybody asks for one. */
    private void restoreRows(List<EmbeddingTable> used) {
        Checkpoint source = state.source().orElse(null);
        if (source == null || source.parts().isEmpty()) {
            return;
        }
        if (used.isEmpty()) {
            throw new CheckpointException(source.path(), "has rows of tables, and this run has no table", "give the "
                    + "model or the builder the tables that it was saved with", null);
        }
        RowErrand.restore(client, random, source);
    }

    /** Warns of what servers hold that is not the checkpoint's, which worker 0 has read. */
    private void compareToCheckpoint(List<EmbeddingTable> used) {
        for (ServerLink server : client.servers) {
            if (server.holds) {
                LOG.log(Level.WARNING, "server {0} goes on with what its directory holds, not with the checkpoint of "
                        + "step {1}; if that is not as it should be, give it an empty directory", server.number,
                        state.step());
            } else if (!used.isEmpty() && state.source().isPresent() && state.source().get().parts().isEmpty()) {
                LOG.log(Level.WARNING, "server {0} begins with new rows: the checkpoint of step {1} has none; to go on "
                        + "with rows, give it the directory that it had", server.number, state.step());
            }
        }
    }

    private void connect(EmbeddingTable table, Plan plan, int number) {
        Plan.Table planned = plan.tables().get(number);
        ServerLink[] servers = client.servers;
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
    public void beforeForward(Tensor input) {
        if (isSynchronous) {
            agreement.compute(input.size(0));
        }
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        isPushed[index] = true;
        if (copies == null) {
            Tensor dense = gradient.to(Device.cpu()).to(DType.F32).contiguous();
            if (dense != gradient) {
                held.add(Scope.release(dense));
            }
            push(index, dense.segment().address());
            return;
        }
        copies.begin(index, gradient);
        while (copies.isThere()) {
            pushCopied();
        }
    }

    private void pushCopied() {
        int index = copies.take();
        push(index, copies.address(index));
    }

    private void push(int index, long address) {
        if (address != 0) {
            GradientCopies.requireFinite(state.optimizer(), index, address, how.number);
        }
        client.push(replica.units()[index], state.optimizer().rate(), address);
    }


    private void pull(TablePart[] parts, String why) {
        client.ask(parts, Message.PULL_ROWS);
        client.await(why);
    }

    @Override
    public boolean beforeStep(Tensor[] gradients) {
        if (isSynchronous) {
            agreement.pause();
        }
        while (copies != null && copies.await()) {
            pushCopied();
        }
        for (int i = 0; i < isPushed.length; i++) {
            if (!isPushed[i]) {
                push(i, 0);
            }
            isPushed[i] = false;
        }
        for (RemoteTable table : tables.values()) {
            client.ask(table.gather(state.optimizer().rate()), Message.PUSH_ROWS);
        }
        client.await("for the weights after a step");
        held.forEach(Tensor::close);
        held.clear();
        replica.adoptTrained();
        state.optimizer().resume(state.optimizer().steps() + 1);
        return false;
    }

    @Override
    public void afterStep() {
        if (!isSynchronous && steps++ % NOTE_EVERY == 0) {
            client.tellFirst(Message.NOTES, notes());
        }
    }

    /** Takes effect a step later where all stop together, so that nobody waits for the votes of others. */
    @Override
    public boolean stops(boolean wanted) {
        return isSynchronous ? agreement.stops(wanted) : wanted;
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
            agreement.pause();
            // Each weighs as much as it has seen of each batch.
            agreement.sumBuffers(state.model(), agreement.share().weight());
        } else {
            client.ask(replica.units(), Message.PULL);
            client.await("for the weights");
            replica.adoptTrained();
        }
        for (int which = 1; which <= replica.mostKept(); which++) {
            client.askKept(replica.units(), which);
            client.await("for what the rule keeps of the weights");
        }
        replica.adoptKept();
    }

    /** Has servers take a cut of their rows, which they write while training goes on. */
    @Override
    public Parts saveParts(Path directory) {
        if (tables.isEmpty()) {
            return Parts.NONE;
        }
        saving = RowErrand.save(client, random, directory, state.step());
        return saving;
    }

    @Override
    public void sum(double[] values) {
        agreement.sum(values);
    }

    @Override
    public void finish() {
        if (isSynchronous) {
            agreement.tally();
        }
        if (saving != null) {
            // Servers must not be let go while they write; who waits for the checkpoint learns what comes of it.
            saving.awaitServers();
        }
        client.askServers(Message.BYE);
        client.await("to say goodbye");
    }

    /** Gives the memory back. */
    @Override
    public void close() {
        if (client != null) {
            client.close();
            client = null;
        }
        tables.forEach((table, remote) -> {
            table.connect(null);
            remote.close();
        });
        tables.clear();
        own.forEach(Parameter::close);
        own.clear();
        if (copies != null) {
            copies.close();
            copies = null;
        }
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
        private boolean proportional;
        private boolean ownData;
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

        /**
         * Divides batches in proportion to what each worker was measured to compute, instead of evenly, where workers
         * are {@link Consistency.Synchronous}. Two runs are then equal to within rounding only.
         */
        public Builder proportional() {
            proportional = true;
            return this;
        }

        /**
         * Trains on rows that each worker has for itself. Where workers are {@link Consistency.Synchronous}, a batch
         * takes of each worker's rows the same fraction ({@link Share.OwnPart}); else each takes batches of its own.
         */
        public Builder ownData() {
            ownData = true;
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

        /**
         * Makes the strategy.
         *
         * @throws TensorException if batches are to be divided that workers do not share, or numbers do not fit
         */
        public ParameterServer build() {
            require(number >= 0 && number < workers && servers > 0, "0 <= number < workers and servers > 0 must hold, "
                    + "got number " + number + ", " + workers + " workers and " + servers + " servers", "change them");
            require(!proportional || consistency instanceof Consistency.Synchronous, "proportional() divides batches "
                    + "that all workers share, but with consistency " + consistency + " each takes batches of its own",
                    "use Consistency.Synchronous, or leave proportional() away");
            require(!proportional || !ownData, "proportional() divides batches by speed, but with ownData() each worker"
                    + " takes its own rows", "leave one of them out");
            require(!proportional || workers < Agreement.MAX_SUMMED, "proportional() needs workers < "
                    + Agreement.MAX_SUMMED + ", got " + workers, "use fewer, or leave it away");
            return new ParameterServer(group, this);
        }

        private static void require(boolean holds, String relation, String remedy) {
            if (!holds) {
                throw TensorException.argument("parameter server", relation, remedy);
            }
        }
    }
}
