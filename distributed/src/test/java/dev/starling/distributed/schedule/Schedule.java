package dev.starling.distributed.schedule;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.View;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
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
import java.util.function.Function;

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
    private static final int MAX_KEPT = 16;
    private static final Secret SECRET = Secret.ofText("a secret of simulated processes");

    private final FaultPlan plan;
    private final ExpectedEffects effects;
    private final OnLoss onLoss;
    private final CoordinatorConfig rules;
    private final int servers;
    private final int epochs;
    private final Function<Group, DistributionStrategy> strategy;
    private final int ranks;
    private final Map<String, Outcome> outcomes = new TreeMap<>();
    private final Outcome coordinator = new Outcome(ExpectedEffects.COORDINATOR);
    private final StepCounts counts;

    /** What happened to a process before or after a restart; {@code failure} is {@code null} if it finished. */
    static final class Outcome {
        /** Name of the process, followed by {@link #RESTARTED} if it was restarted. */
        final String name;
        final Map<Long, float[]> weightsByStep = new TreeMap<>();
        /** When its first step was done. */
        long firstStepNs = Long.MAX_VALUE;
        RuntimeException failure;
        /** The group's view at the time of the failure. */
        View view;
        boolean joined;
        /** Whether training started. */
        boolean started;
        /** Whether it finished its run. */
        boolean ended;
        boolean crashed;
        /** When the failure was thrown, and when the process ended, in nanoseconds of virtual time. */
        long failedNs;
        long endedNs = Long.MAX_VALUE;

        Outcome(String name) {
            this.name = name;
        }

        /** Returns whether the process was restarted after a crash. */
        boolean isRestarted() {
            return name.endsWith(RESTARTED);
        }

        /** Returns the name of the process without the suffix of a restart. */
        String process() {
            return isRestarted() ? name.substring(0, name.length() - RESTARTED.length()) : name;
        }

        /** Returns whether the process had crashed or failed by a time. */
        boolean isLostBy(long nowNs) {
            return !ended && endedNs <= nowNs;
        }

        private void failed(RuntimeException e, long nowNs, View members) {
            if (failure == null) {
                failure = e;
                failedNs = nowNs;
                view = members;
            }
        }
    }

    private Schedule(FaultPlan plan, OnLoss onLoss, int servers, int epochs,
            Function<Group, DistributionStrategy> strategy) {
        this.plan = plan;
        effects = new ExpectedEffects(plan);
        this.onLoss = onLoss;
        this.servers = servers;
        this.epochs = epochs;
        this.strategy = strategy;
        ranks = plan.ranks().size() - 1;
        // Every process that no fault harms continues, however few there are.
        rules = CoordinatorConfig.of(ranks, onLoss).quorum(new Quorum.None()).joinTimeout(TIMEOUT);
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
        return run(plan, onLoss, 0, EPOCHS, strategy);
    }

    /** Runs a schedule whose last ranks are parameter servers. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int servers, Function<Group, DistributionStrategy> strategy) {
        return run(plan, onLoss, servers, EPOCHS, strategy);
    }

    /** Runs a schedule with another number of training epochs. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int servers, int epochs,
            Function<Group, DistributionStrategy> strategy) {
        Schedule schedule = new Schedule(plan, onLoss, servers, epochs, strategy);
        try (Simulation simulation = Simulation.of(plan)) {
            schedule.start(simulation);
            simulation.run(LIMIT);
        }
        return schedule;
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
        GroupConfig config = GroupConfig.of(null, ExpectedEffects.COORDINATOR).place(rank, ranks - servers).host(name)
                .joinTimeout(TIMEOUT).timeout(TIMEOUT);
        try (Group group = Group.join(Transport.over(simulation.wire(name), config()), config, false)) {
            outcome.joined = true;
            try {
                if (rank >= ranks - servers) {
                    ParameterServer.serve(group, ServerConfig.inMemory().ringSize(0));
                } else {
                    train(simulation, group, rank, outcome);
                }
            } catch (DistributedException | TransportException e) {
                outcome.failed(e, simulation.nanoTime(), group.view());
            }
        } catch (DistributedException | TransportException e) {
            outcome.failed(e, simulation.nanoTime(), new View(0, List.of()));
        }
        outcome.ended = outcome.failure == null;
    }

    private static TransportConfig config() {
        return TransportConfig.of("simulated", SECRET).livenessTimeout(SILENCE);
    }

    /** Returns whether processes that crash are started again. */
    private boolean restartsCrashed() {
        return onLoss == OnLoss.REFORM && plan.seed() % 5 == 2;
    }

    /** Most models have two weights; some have so many that all-reduces use halving, or a ring. */
    private int outputs() {
        return plan.seed() % 100 == 49 ? 50_000 : plan.seed() % 20 == 7 ? 3_000 : 1;
    }

    /** Returns whether weights show how many steps were taken. */
    boolean isCounting() {
        return outputs() == 1 && plan.seed() % 2 == 1;
    }

    private void train(Simulation simulation, Group group, int worker, Outcome outcome) {
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
                Layer model = Linear.of(1, outputs, Generator.seeded(group.rank()));
                Optimizer optimizer = Sgd.over(model).rate(counting ? RATE : 0.1).momentum(counting ? 0 : 0.9).build();
                DistributionStrategy distribution = observed(strategy.apply(group), worker, model);
                DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.of(x, EXAMPLES, 1),
                        Tensor.of(y, EXAMPLES, outputs))).batchSize(BATCH).workers(0).shuffle().build()) {
            Trainer.of(model, loss, optimizer).data(loader).epochs(epochs).strategy(distribution)
                    .listeners(new TrainingListener() {
                        @Override
                        public void started(Progress progress) {
                            outcome.started = true;
                        }

                        @Override
                        public void stepEnded(Progress progress) {
                            outcome.firstStepNs = Math.min(outcome.firstStepNs, simulation.nanoTime());
                            outcome.weightsByStep.put(progress.step(), weights(model));
                            simulation.sleep(servers == 0 ? STEP : STEP.multipliedBy(1 + worker).dividedBy(2));
                        }
                    }).build().run();
        }
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
