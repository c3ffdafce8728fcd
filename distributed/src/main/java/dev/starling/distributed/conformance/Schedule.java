package dev.starling.distributed.conformance;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.View;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Tanh;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/**
 * One training run of a few simulated processes under one fault plan, with the outcome of each process. The trainer,
 * the strategy, the group and the transport are the real ones; network and time are simulated.
 */
final class Schedule {
    static final Duration HORIZON = Duration.ofMillis(400);

    static final Duration SILENCE = Duration.ofMillis(100);
    static final Duration TIMEOUT = Duration.ofSeconds(5);
    /** Suffix of the name of a restarted process. */
    static final String RESTARTED = " restarted";
    /** Learning rate of counting runs: each gradient is 1, so each step subtracts this from each weight, exactly. */
    static final float RATE = 1f / 64;
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final Duration STEP = Duration.ofMillis(8);
    private static final Duration RESTART_DELAY = Duration.ofMillis(50);
    private static final int EXAMPLES = 48;
    private static final int BATCH = 12;
    private static final int EPOCHS = 8;
    private static final int MAX_KEPT = 512;
    private static final int HIDDEN = 16;
    private static final Secret SECRET = Secret.ofText("a secret of simulated processes");

    private final FaultPlan plan;
    private final ExpectedEffects effects;
    private final OnLoss onLoss;
    private final CoordinatorConfig rules;
    private final int servers;
    private final Consumer<Group> server;
    private final int epochs;
    private final Function<Group, DistributionStrategy> strategy;
    private final int ranks;
    private final Map<String, Outcome> outcomes = new TreeMap<>();
    private final Outcome coordinator = new Outcome(ExpectedEffects.COORDINATOR);
    private final StepCounts counts;

    private Schedule(FaultPlan plan, OnLoss onLoss, Quorum quorum, int servers, Consumer<Group> server, int epochs,
            Function<Group, DistributionStrategy> strategy) {
        this.plan = plan;
        effects = new ExpectedEffects(plan);
        this.onLoss = onLoss;
        this.servers = servers;
        this.server = server;
        this.epochs = epochs;
        this.strategy = strategy;
        ranks = plan.ranks().size() - 1;
        rules = CoordinatorConfig.of(ranks, onLoss).quorum(quorum).joinTimeout(TIMEOUT);
        counts = new StepCounts(effects, plan.ranks().subList(1, 1 + ranks - servers));
    }

    /** Returns the preferred rank of a process, from its name. */
    static int rank(String name) {
        return Character.digit(name.charAt("rank".length()), 10);
    }

    static List<String> names(int workers) {
        List<String> names = new ArrayList<>();
        names.add("coordinator");
        for (int rank = 0; rank < workers; rank++) {
            names.add("rank" + rank);
        }
        return names;
    }

    /** Runs a schedule; throws if it hangs or fails with an unexpected exception. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, Function<Group, DistributionStrategy> strategy) {
        return run(plan, onLoss, EPOCHS, strategy);
    }

    /** Runs a schedule with another number of training epochs. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int epochs, Function<Group, DistributionStrategy> strategy) {
        // Every process that no fault harms continues, however few there are.
        return run(new Schedule(plan, onLoss, new Quorum.None(), 0, _ -> { }, epochs, strategy));
    }

    /** Runs a schedule in which only a majority continues after losses. */
    static Schedule runByMajority(FaultPlan plan, Function<Group, DistributionStrategy> strategy) {
        return run(new Schedule(plan, OnLoss.REFORM, new Quorum.Majority(), 0, _ -> { }, EPOCHS, strategy));
    }

    /** Runs a schedule whose last ranks are servers, with a program of their own. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int servers, Consumer<Group> server,
            Function<Group, DistributionStrategy> strategy) {
        return run(new Schedule(plan, onLoss, new Quorum.None(), servers, server, EPOCHS, strategy));
    }

    private static Schedule run(Schedule schedule) {
        FaultPlan plan = schedule.plan;
        try (Simulation simulation = Simulation.of(plan)) {
            schedule.start(simulation);
            simulation.run(LIMIT);
        }
        return schedule;
    }

    /** Returns the weights after each step of one process that trains without a strategy. */
    static Map<Long, float[]> alone(FaultPlan plan) {
        Outcome outcome = new Outcome("alone");
        Schedule schedule = new Schedule(plan, OnLoss.END, new Quorum.None(), 0, _ -> { }, EPOCHS,
                _ -> new SingleProcess());
        try (Simulation simulation = Simulation.of(plan)) {
            simulation.start(outcome.name, () -> schedule.train(simulation, null, new SingleProcess(), 0, outcome));
            simulation.run(LIMIT);
        }
        return outcome.weightsByStep;
    }

    private void start(Simulation simulation) {
        simulation.start(coordinator.name, () -> live(simulation, coordinator, () -> coordinate(simulation)));
        for (int rank = 0; rank < ranks; rank++) {
            start(simulation, rank, new Outcome("rank" + rank));
        }
    }

    private void start(Simulation simulation, int rank, Outcome outcome) {
        outcomes.put(outcome.name, outcome);
        simulation.start("rank" + rank, () -> live(simulation, outcome, () -> takePart(simulation, rank, outcome)));
    }

    private void coordinate(Simulation simulation) {
        Transport transport = Transport.over(simulation.wire(ExpectedEffects.COORDINATOR), config());
        try (Coordinator owner = Coordinator.over(transport, rules)) {
            owner.run(LIMIT.dividedBy(2));
        } catch (TransportException e) {
            if (e.problem() == TransportException.Problem.TIMED_OUT) {
                return;
            }
            throw e;
        }
        coordinator.ended = true;
    }

    /** Runs a process and stores how it ends; restarts a crashed one if {@link #restartsCrashed}. */
    private void live(Simulation simulation, Outcome outcome, Runnable program) {
        try {
            program.run();
        } finally {
            outcome.endedNs = simulation.nanoTime();
            outcome.crashed = !outcome.ended && outcome.failure == null;
            if (outcome.crashed && restartsCrashed() && outcome != coordinator && !outcome.isRestarted()) {
                int rank = rank(outcome.name);
                simulation.at(simulation.now().plus(RESTART_DELAY),
                        () -> start(simulation, rank, new Outcome(outcome.name + RESTARTED)));
            }
        }
    }

    private void takePart(Simulation simulation, int rank, Outcome outcome) {
        String name = "rank" + rank;
        GroupConfig config = GroupConfig.of(config(), ExpectedEffects.COORDINATOR).place(rank, ranks - servers)
                .host(name).joinTimeout(TIMEOUT).timeout(TIMEOUT)
                .maxMesh(Integer.getInteger("schedules.mesh", GroupConfig.DEFAULT_MAX_MESH));
        try (Group group = Group.join(Transport.over(simulation.wire(name), config()), config, false)) {
            outcome.joined = true;
            try {
                if (rank >= ranks - servers) {
                    server.accept(group);
                } else {
                    train(simulation, group, strategy.apply(group), rank, outcome);
                }
            } catch (RunEndedException | TransportException e) {
                outcome.failed(e, simulation.nanoTime(), group.view());
            }
        } catch (RunEndedException | TransportException e) {
            outcome.failed(e, simulation.nanoTime(), new View(0, List.of()));
        }
        outcome.ended = outcome.failure == null;
    }

    private static TransportConfig config() {
        return TransportConfig.of("simulated", SECRET).livenessTimeout(SILENCE);
    }

    /** Returns whether processes that crash are started again. */
    private boolean restartsCrashed() {
        return onLoss == OnLoss.REFORM && isSeed(5, 2);
    }

    /** Most models have two weights; some have so many that all-reduces use halving, or a ring. */
    private int outputs() {
        return isSeed(100, 49) ? 50_000 : isSeed(20, 7) ? 3_000 : 1;
    }

    /** Returns whether weights show how many steps were taken. */
    boolean isCounting() {
        return outputs() == 1 && isSeed(2, 1);
    }

    /** Returns whether the seed has a remainder; seeds may be negative. */
    private boolean isSeed(int divisor, int remainder) {
        return Math.floorMod(plan.seed(), divisor) == remainder;
    }

    /** Trains in a group, or without one. */
    private void train(Simulation simulation, @Nullable Group group, DistributionStrategy plain, int worker,
            Outcome outcome) {
        int outputs = outputs();
        boolean counting = isCounting();
        float[] x = new float[EXAMPLES];
        float[] y = new float[EXAMPLES * outputs];
        for (int i = 0; i < EXAMPLES; i++) {
            x[i] = counting ? 1 : (i % 7) / 3f - 1;
            Arrays.fill(y, i * outputs, (i + 1) * outputs, 3 * x[i] - 1);
        }
        Loss loss = counting ? (result, target) -> result.mean() : Loss.meanSquared();
        try (Scope scope = Scope.open("schedule");
                Layer model = model(outputs, Generator.seeded(group == null ? 0 : group.rank()));
                Optimizer optimizer = Sgd.over(model).rate(counting ? RATE : 0.1).momentum(counting ? 0 : 0.9).build();
                DistributionStrategy distribution = observed(plain, worker, model);
                DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.of(x, EXAMPLES, 1),
                        Tensor.of(y, EXAMPLES, outputs))).batchSize(BATCH).workers(0).shuffle().build()) {
            Trainer.of(model, loss, optimizer).data(loader).epochs(epochs).strategy(distribution)
                    .listeners(new TrainingListener() {
                        @Override
                        public void started(Progress progress) {
                            outcome.started = true;
                            outcome.synchronous = distribution.share().isSynchronous();
                        }

                        @Override
                        public void stepEnded(Progress progress) {
                            outcome.firstStepNs = Math.min(outcome.firstStepNs, simulation.nanoTime());
                            float[] weights = weights(model);
                            outcome.weightsByStep.put(progress.step(), weights);
                            if (group != null) {
                                outcome.stepEnded(group.view(), progress.step(), weights, simulation.nanoTime());
                            }
                            simulation.sleep(servers == 0 ? STEP : STEP.multipliedBy(1 + worker).dividedBy(2));
                        }
                    }).build().run();
        }
    }

    /** Returns a layer, or for some seeds one with hidden ones, whose gradients are larger matrices. */
    private Layer model(int outputs, Generator random) {
        return !isSeed(20, 8) ? Linear.of(1, outputs, random) : Sequential.of(Linear.of(1, HIDDEN, random),
                Linear.of(HIDDEN, HIDDEN, random), new Tanh(), Linear.of(HIDDEN, outputs, random));
    }

    private DistributionStrategy observed(DistributionStrategy plain, int worker, Layer model) {
        if (servers == 0) {
            return plain;
        }
        counts.first(worker, weights(model));
        return new ObservedStrategy(plain, () -> counts.begun(worker), () -> counts.acknowledged(worker,
                isCounting() ? weights(model) : null, onLoss == OnLoss.END), () -> counts.finished(worker));
    }

    /** Returns all weights; of many, the first few, the sum and a hash of all, which suffice for comparisons. */
    private static float[] weights(Layer model) {
        float[] all = {};
        for (Parameter parameter : model.parameters().values()) {
            float[] next = parameter.value().toFloats();
            all = Arrays.copyOf(all, all.length + next.length);
            System.arraycopy(next, 0, all, all.length - next.length, next.length);
        }
        if (all.length <= MAX_KEPT) {
            return all;
        }
        float[] some = Arrays.copyOf(all, MAX_KEPT + 2);
        double sum = 0;
        for (float each : all) {
            sum += each;
        }
        some[MAX_KEPT] = (float) sum;
        some[MAX_KEPT + 1] = Arrays.hashCode(all);
        return some;
    }

    ExpectedEffects effects() {
        return effects;
    }

    /** Returns the outcomes of all processes but the coordinator. */
    Map<String, Outcome> outcomes() {
        return outcomes;
    }

    /** Returns the outcomes of all processes. */
    List<Outcome> all() {
        List<Outcome> all = new ArrayList<>(outcomes.values());
        all.add(coordinator);
        return all;
    }

    /** Describes the outcomes of all processes. */
    String describe() {
        StringBuilder text = new StringBuilder();
        for (Outcome o : all()) {
            text.append("\n  ").append(o.name).append(o.joined ? " joined," : "").append(o.started ? " started," : "")
                    .append(" took ").append(o.weightsByStep.size()).append(" steps, ").append(o.ended ? "ended"
                            : o.crashed ? "crashed" : "failed: " + o.failure).append(" at ")
                    .append(Duration.ofNanos(o.failure == null ? o.endedNs : o.failedNs));
        }
        return text.toString();
    }

    /** Returns the counted steps; meaningful only with servers. */
    StepCounts counts() {
        return counts;
    }
}
