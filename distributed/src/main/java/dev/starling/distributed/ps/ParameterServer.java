package dev.starling.distributed.ps;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.group.Strategies;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.config.ServerException;
import dev.starling.distributed.ps.server.ServerNode;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.distributed.ps.worker.Agreement;
import dev.starling.distributed.ps.worker.Client;
import dev.starling.distributed.ps.worker.GradientCopies;
import dev.starling.distributed.ps.worker.RemoteTable;
import dev.starling.distributed.ps.worker.RowJob;
import dev.starling.distributed.ps.worker.ServerLink;
import dev.starling.distributed.ps.worker.WorkerWeights;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.checkpoint.CheckpointException;
import dev.starling.nn.checkpoint.Parts;
import dev.starling.nn.data.Share;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.Collective;
import dev.starling.nn.train.Concludes;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.StepsElsewhere;
import dev.starling.nn.train.StreamsGradients;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.lang.System.Logger.Level;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Training with servers that hold the weights and take the optimiser's steps: workers push each gradient as soon as it
 * is final and get the new weights back. Servers and workers are members of one group, which a process joins in its
 * {@link Role}.
 *
 * <pre>{@code
 * Group group = Group.join(GroupConfig.of(transport, coordinator).place(rank, workers));
 * ParameterServer.serve(group, ServerConfig.in(directory)); // in a server, until training ends
 * // in a worker:
 * try (ParameterServer servers = ParameterServer.worker(group, number).workers(4).servers(1)
 *         .consistency(new Consistency.Stale(4)).build()) {
 *     Trainer.of(model, loss, Adam.over(model).build()).data(batches).strategy(servers).build().run();
 * }
 * }</pre>
 *
 * <p><b>Optimiser.</b> Servers apply the rule of the worker's {@link Optimizer}, or the one given to
 * {@link Builder#optimizer}. Each gradient carries the learning rate. The rule's state (momentum, moments) stays on the
 * servers; only worker 0 fetches it, to write it to checkpoints. A run that resumes from such a checkpoint may have
 * another number of servers, or none if the rule is the optimiser's.
 *
 * <p><b>Checkpoints and initial weights.</b> Each server writes its rows of tables to checkpoints itself, while
 * training continues, and reads its rows from there. All servers and worker 0 therefore need the checkpoint directory
 * at the same path. Worker 0 provides the initial weights. A server that finds weights in its own directory continues
 * with those instead, and worker 0 logs a warning if it resumed from a checkpoint.
 *
 * <p><b>Failures.</b> Workers wait for a lost server to return and repeat the requests that it did not acknowledge.
 * Other workers continue without a lost worker. With {@link Consistency.Synchronous}, the loss of any member ends
 * training on all members, servers included, with a {@link PeerLostException} that names the first. None is replaced.
 *
 * <p>Confined to the training thread.
 */
public final class ParameterServer implements DistributionStrategy, StreamsGradients, Collective, StepsElsewhere,
        Concludes {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final int BLOCK_LENGTH = 16_384;
    private static final int NOTES_INTERVAL_STEPS = 16;

    private final Membership group;
    private final WorkerConfig config;
    private final boolean synchronous;
    private final SecureRandom random = new SecureRandom();
    /** Set by {@link #start}. */
    @SuppressWarnings("NullAway.Init")
    private TrainingState state;
    /** Set by {@link #start} if training is synchronous, cleared by {@link #close}. */
    @SuppressWarnings("NullAway.Init")
    private Agreement agreement;
    /** Set by {@link #start}, cleared by {@link #close}. */
    @SuppressWarnings("NullAway.Init")
    private Client client;
    /** Set by {@link #start}, cleared by {@link #close}. */
    @SuppressWarnings("NullAway.Init")
    private WorkerWeights localWeights;
    /** {@code null} if gradients are in the host's memory. */
    private @Nullable GradientCopies copies;
    /** F32 copies of gradients of other types; open until the servers have acknowledged them. */
    private final List<Tensor> held = new ArrayList<>();
    private final Map<EmbeddingTable, RemoteTable> tables = new LinkedHashMap<>();
    /** State of {@link Builder#optimizer}'s rule; only worker 0 has it, for checkpoints. */
    private final List<Parameter> ruleState = new ArrayList<>();
    /** The last checkpoint of rows, or {@code null}. */
    private @Nullable RowJob save;
    private boolean[] pushed = {};
    private long steps;

    private ParameterServer(Group group, WorkerConfig config) {
        this.group = Membership.of(group);
        this.config = config;
        synchronous = config.consistency() instanceof Consistency.Synchronous;
    }

    /**
     * Runs a server in the calling thread until all workers are done.
     *
     * @param group in which this process is a {@link Role.Server}
     * @param config storage; servers may share its directory, in which each creates a subdirectory of its own
     * @throws ServerException if the server cannot use its files
     * @throws PeerLostException if a member of a synchronous run is lost
     * @throws DistributedException if the group ends, no worker is left, or this process is not a server
     */
    public static void serve(Group group, ServerConfig config) {
        new ServerNode(Membership.of(group), config).run();
    }

    /**
     * Returns a builder of a worker's strategy.
     *
     * @param number of this worker, from 0; a process that replaces another worker uses that worker's number
     */
    public static Builder worker(Group group, int number) {
        return new Builder(group, number);
    }

    @Override
    public int rank() {
        return config.number();
    }

    @Override
    public int world() {
        return config.workers();
    }

    @Override
    public boolean stepsElsewhere() {
        return true;
    }

    @Override
    public Share share() {
        return agreement != null ? agreement.share() : config.ownData() ? new Share.Own()
                : synchronous ? Share.part(rank(), world()) : Share.shard(rank(), world());
    }

    @Override
    public void start(TrainingState newState) {
        // What an earlier run has left does not count in this one.
        close();
        state = newState;
        group.patience().place(() -> "worker " + rank() + " of " + world() + ", at step " + newState.step() + ",");
        List<EmbeddingTable> used = Rules.tables(state.model(), config.tables());
        int blockLength = Math.min(BLOCK_LENGTH, (group.transport().maxMessageLength() - 128) / 4);
        Plan plan = new Plan(config.servers(), world(), blockLength, config.consistency(),
                Rules.of(state, config.optimizer(), used),
                Rules.ofTables(state, config.optimizer(), used, config.servers()));
        client = new Client(group, rank(), plan, config.addTo(state.settings()), synchronous, random);
        List<Parameter> parameters = state.optimizer().parameters();
        pushed = new boolean[parameters.size()];
        localWeights = new WorkerWeights(parameters, plan, client.servers, random);
        copies = GradientCopies.of(group, parameters);
        for (EmbeddingTable table : used) {
            RemoteTable remote = new RemoteTable(plan, tables.size(), client);
            tables.put(table, remote);
            table.connect(remote);
        }
        if (rank() == 0) {
            prepareRuleState(plan);
        }
        client.open();
        if (rank() == 0) {
            restoreRows(used);
        }
        client.ask(localWeights.requests(), Message.JOIN);
        tables.values().forEach(table -> client.ask(table.parts(), Message.JOIN));
        client.await(rank() == 0 ? "for the servers to store the initial weights"
                : "for the initial weights of worker 0");
        localWeights.adopt();
        if (rank() == 0 && state.step() > 0) {
            compareToCheckpoint(used);
        }
        if (synchronous) {
            agreement = new Agreement(client, rank(), config.proportional(), config.ownData(), state);
        }
        Map<String, String> furthest = synchronous ? agreement.beginning() : client.furthest();
        if (furthest != null && state.step() == 0 && !furthest.getOrDefault("step", "0").equals("0")) {
            state.restore(furthest);
        }
        if (synchronous && state.step() > 0) {
            // Only worker 0 has read the checkpoint's running statistics.
            agreement.sumBuffers(state.model(), rank() == 0 ? 1 : 0);
        }
    }

    /** On worker 0: connects the rule's state with checkpoints, and notifies server 0 at which step the run starts. */
    private void prepareRuleState(Plan plan) {
        Optimizer optimizer = state.optimizer();
        List<List<Parameter>> keepers = new ArrayList<>();
        for (int i = 0; i < plan.dense().size(); i++) {
            boolean restored = config.optimizer() == null;
            if (restored) {
                keepers.add(optimizer.stateOf(i));
            } else {
                keepers.add(new ArrayList<>());
                restored = keep(plan.dense().get(i), optimizer.parameters().get(i), keepers.getLast());
            }
            // Servers count the steps of all workers.
            localWeights.keptSteps(i, restored ? Rules.steps(optimizer, i) * (synchronous ? 1 : world()) : 0);
        }
        localWeights.keep(keepers);
        if (!synchronous && state.step() > 0) {
            client.askFirst(new SessionMessage.Begin(state.step(), state.notes()));
        }
    }

    /** Allocates state for a rule of {@link Builder#optimizer}; returns whether a checkpoint has restored it. */
    private boolean keep(Plan.Dense dense, Parameter weights, List<Parameter> into) {
        boolean restored = true;
        for (int k = 0; k < dense.rule().slots().size() && dense.count() > 0; k++) {
            Parameter kept;
            try (Tensor initial = Tensor.full(DType.F32, dense.rule().initial(), weights.shape().dims())) {
                kept = Parameter.buffer(initial);
            }
            into.add(kept);
            ruleState.add(kept);
            restored &= state.keep(Rules.key(dense.rule(), k) + '.' + dense.name(), kept);
        }
        return restored;
    }

    /** Makes servers read their rows from the checkpoint, before any worker pulls a row. */
    private void restoreRows(List<EmbeddingTable> used) {
        Checkpoint source = state.source().orElse(null);
        if (source == null || source.parts().isEmpty()) {
            return;
        }
        if (used.isEmpty()) {
            throw new CheckpointException(source.path(), "has rows of tables, but this run has no table", "add the "
                    + "tables that it was saved with to the model or to ParameterServer.Builder.tables", null);
        }
        RowJob.restore(client, random, source);
    }

    /** Logs a warning for each server whose weights or rows are not those of the checkpoint that worker 0 read. */
    private void compareToCheckpoint(List<EmbeddingTable> used) {
        for (ServerLink server : client.servers) {
            if (server.holds()) {
                LOG.log(Level.WARNING, "server {0} continues with the weights in its own directory and ignores the "
                        + "checkpoint of step {1}; to resume from the checkpoint, give the server an empty directory",
                        server.number, state.step());
            } else if (!used.isEmpty() && state.source().isPresent() && state.source().get().parts().isEmpty()) {
                LOG.log(Level.WARNING, "server {0} starts with new rows: the checkpoint of step {1} has none; to keep "
                        + "the rows, give the server the directory that it had", server.number, state.step());
            }
        }
    }

    @Override
    public void beforeForward(Tensor input) {
        if (synchronous) {
            Strategies.started(agreement, "beforeForward").compute(input.size(0));
        }
    }

    @Override
    public void gradient(int index, Tensor gradient) {
        Strategies.started(client == null ? null : pushed, "gradient")[index] = true;
        if (copies == null) {
            Tensor dense = gradient.to(Device.cpu()).to(DType.F32).contiguous();
            if (dense != gradient) {
                held.add(Scope.release(dense));
            }
            push(index, dense.segment().address());
            return;
        }
        copies.begin(index, gradient);
        while (copies.isReady()) {
            pushCopied(copies);
        }
    }

    private void pushCopied(GradientCopies from) {
        int index = from.next();
        push(index, from.address(index));
    }

    @Override
    public void onFailedStep() {
        Strategies.started(client, "onFailedStep").abandonStep(copies != null && copies.hasBegun());
        Arrays.fill(pushed, false);
        tables.values().forEach(RemoteTable::dropGradients);
    }

    private void push(int index, long address) {
        if (address != 0) {
            GradientCopies.requireFinite(state.optimizer(), index, address, rank());
        }
        client.ask(localWeights.setGradient(index, address, Rules.rate(state.optimizer(), index)), Message.PUSH);
    }

    @Override
    public Step beforeStep(Tensor[] gradients) {
        Strategies.started(client, "beforeStep");
        if (synchronous) {
            agreement.pause();
        }
        while (copies != null && copies.await()) {
            pushCopied(copies);
        }
        for (int i = 0; i < pushed.length; i++) {
            if (!pushed[i]) {
                push(i, 0);
            }
        }
        tables.forEach((table, remote) -> client.ask(remote.gather(Rules.rate(state.optimizer(), table)),
                Message.PUSH_ROWS));
        client.awaitStep();
        held.forEach(Tensor::close);
        held.clear();
        localWeights.adoptTrained();
        Rules.countStep(state.optimizer(), pushed);
        Arrays.fill(pushed, false);
        return Step.ELSEWHERE;
    }

    @Override
    public void afterStep() {
        if (synchronous) {
            Strategies.started(agreement, "afterStep").compareWeights(state, config.checkInterval());
        } else if (steps++ % NOTES_INTERVAL_STEPS == 0) {
            Strategies.started(client, "afterStep").notifyFirst(new SessionMessage.Notes(state.step(), state.notes()));
        }
    }

    /** In synchronous training takes effect one step later, so that a worker need not wait for the others' votes. */
    @Override
    public boolean stops(boolean wanted) {
        return synchronous ? Strategies.started(agreement, "stops").stops(wanted) : wanted;
    }

    @Override
    public void settle() {
        if (synchronous) {
            Strategies.started(agreement, "settle").pause();
            // The weight of a worker is its share of each batch.
            agreement.sumBuffers(state.model(), agreement.share().weight());
        } else {
            client.ask(Strategies.started(localWeights, "settle").requests(), Message.PULL);
            client.await("for the weights");
            localWeights.adoptTrained();
        }
        for (int which = 1; which <= localWeights.maxSlots(); which++) {
            client.ask(localWeights.requestsOf(which), Message.PULL);
            client.await("for the state of the optimiser's rule");
        }
        localWeights.adoptKept();
    }

    /** Makes servers take a consistent cut of their rows, which they write while training continues. */
    @Override
    public Parts saveParts(Path directory) {
        if (tables.isEmpty()) {
            return Parts.NONE;
        }
        save = RowJob.save(client, random, directory, state.step());
        return save;
    }

    @Override
    public void sum(double[] values) {
        Strategies.started(agreement, "sum").sum(values);
    }

    @Override
    public void finish() {
        if (synchronous) {
            Strategies.started(agreement, "finish").tally();
        }
        if (save != null) {
            // Servers must not end while they write. The thread that waits for the checkpoint reports a failure.
            save.awaitServers();
        }
        Strategies.started(client, "finish").askForFarewell();
        client.await("for the servers to confirm the end of training");
        tables.keySet().forEach(table -> table.connect(null));
    }

    /** Releases the memory. */
    @Override
    @SuppressWarnings("NullAway") // Nothing is connected between the end and another start.
    public void close() {
        if (agreement != null) {
            agreement.close();
            agreement = null;
        }
        if (client != null) {
            client.close();
            client = null;
        }
        held.forEach(Tensor::close);
        held.clear();
        save = null;
        tables.keySet().forEach(table -> table.connect(null));
        tables.values().forEach(RemoteTable::close);
        tables.clear();
        ruleState.forEach(Parameter::close);
        ruleState.clear();
        if (copies != null) {
            copies.close();
            copies = null;
        }
        if (localWeights != null) {
            localWeights.close();
            localWeights = null;
        }
    }

    /** Builds a worker's strategy. All workers must use the same settings, except for their number. */
    public static final class Builder {
        private final Group group;
        private final int number;
        private int workers;
        private int servers = 1;
        private Consistency consistency = new Consistency.Asynchronous();
        private boolean proportional;
        private boolean ownData;
        private @Nullable Rule optimizer;
        private List<EmbeddingTable> tables = List.of();
        private int checkInterval = 100;

        private Builder(Group group, int number) {
            this.group = group;
            this.number = number;
            workers = Math.max(1, group.world() - 1);
        }

        /** Sets the number of workers; default all members but one. */
        public Builder workers(int count) {
            workers = count;
            return this;
        }

        /** Sets the number of servers; default 1. */
        public Builder servers(int count) {
            servers = count;
            return this;
        }

        /** Sets how many steps workers may be apart; default {@link Consistency.Asynchronous}. */
        public Builder consistency(Consistency newConsistency) {
            consistency = newConsistency;
            return this;
        }

        /**
         * Divides each batch in proportion to the measured speed of the workers instead of evenly. Needs
         * {@link Consistency.Synchronous}. Two runs are then equal only to within rounding.
         */
        public Builder proportional() {
            proportional = true;
            return this;
        }

        /**
         * Trains on data of which each worker has its own rows. With {@link Consistency.Synchronous}, a batch contains
         * the same fraction of each worker's rows ({@link Share.OwnPart}); otherwise each worker forms its own batches.
         */
        public Builder ownData() {
            ownData = true;
            return this;
        }

        /** Sets the rule that servers apply. The worker's optimiser then provides only the learning rate. */
        public Builder optimizer(Rule rule) {
            optimizer = rule;
            return this;
        }

        /** As {@link dev.starling.distributed.ring.RingAllReduce.Builder#checkWeightsEvery}, for synchronous steps. */
        public Builder checkWeightsEvery(int steps) {
            checkInterval = steps;
            return this;
        }

        /** Adds tables that are not layers of the model. The strategy finds tables that are layers by itself. */
        public Builder tables(EmbeddingTable... others) {
            tables = List.of(others);
            return this;
        }

        /**
         * Returns a strategy with the present settings; later changes of this builder do not affect it.
         *
         * @throws TensorException if a number is out of range, or {@link #proportional} contradicts another setting
         */
        public ParameterServer build() {
            return new ParameterServer(group, new WorkerConfig(number, workers, servers, consistency, proportional,
                    ownData, optimizer, tables, checkInterval));
        }
    }
}
