package dev.starling.distributed.schedule;

import dev.starling.distributed.Coordinator;
import dev.starling.distributed.Coordinator.OnLoss;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.ServerConfig;
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
 * One training run of a few simulated processes under one plan of faults: what each rank went through. The trainer, the
 * strategy, the group and the transport are the real ones; network and time are simulated.
 */
final class Schedule {
    static final Duration HORIZON = Duration.ofMillis(400);

    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final Duration PATIENCE = Duration.ofSeconds(5);
    private static final Duration LIMIT = Duration.ofSeconds(120);
    private static final Duration STEP = Duration.ofMillis(8);
    private static final int EXAMPLES = 48;
    private static final int BATCH = 12;
    private static final int EPOCHS = 8;
    private static final int MOST_KEPT = 16;
    private static final Secret SECRET = Secret.ofText("a secret of simulated processes");

    private final Map<String, Outcome> outcomes = new TreeMap<>();

    /** What became of a process; {@code failure} is {@code null} if it came to the end of its run. */
    static final class Outcome {
        final Map<Long, float[]> weightsByStep = new TreeMap<>();
        float[] weights;
        RuntimeException failure;
        boolean ended;
    }

    private Schedule() { }

    static List<String> names(int workers) {
        List<String> names = new ArrayList<>();
        names.add("coordinator");
        for (int rank = 0; rank < workers; rank++) {
            names.add("rank" + rank);
        }
        return names;
    }

    /** Runs a schedule; throws if anything hangs or fails in a way that is not for users to see. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, Function<Group, DistributionStrategy> strategy) {
        return run(plan, onLoss, 0, EPOCHS, strategy);
    }

    /** Runs a schedule whose last ranks are parameter servers. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int servers, Function<Group, DistributionStrategy> strategy) {
        return run(plan, onLoss, servers, EPOCHS, strategy);
    }

    /** Runs a schedule with so many epochs. */
    static Schedule run(FaultPlan plan, OnLoss onLoss, int servers, int epochs,
            Function<Group, DistributionStrategy> strategy) {
        Schedule schedule = new Schedule();
        int workers = plan.ranks().size() - 1;
        try (Simulation simulation = Simulation.of(plan)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                        config()), workers, onLoss, 1, PATIENCE)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    if (e.problem() != TransportException.Problem.TIMED_OUT) {
                        throw e;
                    }
                }
            });
            for (int rank = 0; rank < workers; rank++) {
                String name = "rank" + rank;
                int wish = rank;
                Outcome outcome = new Outcome();
                schedule.outcomes.put(name, outcome);
                simulation.start(name, () -> {
                    GroupConfig joining = GroupConfig.of(null, "coordinator").wish(wish).host(name).joining(PATIENCE)
                            .patience(PATIENCE);
                    try (Group group = Group.join(Transport.over(simulation.wire(name), config()), joining, false)) {
                        if (wish >= workers - servers) {
                            ParameterServer.serve(group, wish - (workers - servers), ServerConfig.inMemory()
                                    .ringSize(0));
                        } else {
                            train(simulation, group, outputs(plan), epochs, strategy, outcome);
                        }
                        outcome.ended = true;
                    } catch (DistributedException | TransportException e) {
                        outcome.failure = e;
                    }
                });
            }
            simulation.run(LIMIT);
        }
        return schedule;
    }

    private static TransportConfig config() {
        return TransportConfig.of("simulated", SECRET).silence(SILENCE);
    }

    /** Most models have two weights; some so many that sums go by halves, or around a ring. */
    private static int outputs(FaultPlan plan) {
        return plan.seed() % 100 == 49 ? 50_000 : plan.seed() % 20 == 7 ? 3_000 : 1;
    }

    private static void train(Simulation simulation, Group group, int outputs, int epochs,
            Function<Group, DistributionStrategy> strategy, Outcome outcome) {
        float[] x = new float[EXAMPLES];
        float[] y = new float[EXAMPLES * outputs];
        for (int i = 0; i < EXAMPLES; i++) {
            x[i] = (i % 7) / 3f - 1;
            Arrays.fill(y, i * outputs, (i + 1) * outputs, 3 * x[i] - 1);
        }
        try (Scope scope = Scope.open("schedule");
                Layer model = Linear.of(1, outputs, Generator.seeded(group.rank()));
                Optimizer optimizer = Sgd.over(model).rate(0.1).momentum(0.9).build();
                DistributionStrategy together = strategy.apply(group);
                DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.of(x, EXAMPLES, 1),
                        Tensor.of(y, EXAMPLES, outputs))).batchSize(BATCH).workers(0).shuffle().build()) {
            Trainer.of(model, Loss.meanSquared(), optimizer).data(loader).epochs(epochs).strategy(together)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            outcome.weightsByStep.put(progress.step(), weights(model));
                            simulation.sleep(STEP);
                        }
                    }).build().run();
            outcome.weights = weights(model);
        }
    }

    /** Returns all weights; or of many the first few, the sum, and a hash of all, which is as good for comparing. */
    private static float[] weights(Layer model) {
        float[] all = {};
        for (Parameter parameter : model.parameters().values()) {
            float[] next = parameter.value().toFloats();
            all = Arrays.copyOf(all, all.length + next.length);
            System.arraycopy(next, 0, all, all.length - next.length, next.length);
        }
        if (all.length <= MOST_KEPT) {
            return all;
        }
        float[] some = Arrays.copyOf(all, MOST_KEPT + 2);
        double sum = 0;
        for (float each : all) {
            sum += each;
        }
        some[MOST_KEPT] = (float) sum;
        some[MOST_KEPT + 1] = Arrays.hashCode(all);
        return some;
    }

    Map<String, Outcome> outcomes() {
        return outcomes;
    }
}
