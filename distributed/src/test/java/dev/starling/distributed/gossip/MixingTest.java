package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.function.BooleanSupplier;
import java.util.function.IntSupplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Workers with different values converge to their mean. */
@Timeout(60)
class MixingTest {
    private static final int NEVER = Integer.MAX_VALUE;
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    private static final Duration STEP = Duration.ofMillis(8);
    private static final Duration LIMIT = Duration.ofSeconds(600);
    private static final TransportConfig SIMULATED = TransportConfig.of("simulated",
            Secret.ofText("a secret of simulated processes"));

    /** Takes steps that do not train. */
    private interface Mixing {
        /** Called with the worker and its weight after each step. */
        void mix(Gossip gossip, Layer model) throws Exception;
    }

    /** Starts workers with weights of their own, of which worker r publishes after every {@code periods[r]} steps. */
    private static void mix(boolean shared, double[] values, int[] periods, Mixing mixing) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5))
                .sharedMemory(shared);
        new Cluster(config, values.length, Coordinator.OnLoss.REFORM).run(group -> {
            try (Scope scope = Scope.open("test");
                    Gossip gossip = Gossip.of(group, periods[group.rank()]);
                    Layer model = Linear.of(1, 1, Generator.seeded(group.rank()));
                    Optimizer sgd = Sgd.over(model).build()) {
                gossip.start(TrainingState.of(model, sgd));
                // A worker that joins starts with the weights of another and a mass of 1, and has mixed nothing yet.
                model.parameters().values().forEach(p -> p.set(Tensor.full(p.value().dtype(),
                        values[group.rank()], p.shape().dims())));
                mixing.mix(gossip, model);
            }
            return null;
        });
    }

    private static double[] weights(Layer model) {
        return model.parameters().values().stream().mapToDouble(p -> p.value().item()).toArray();
    }

    /** Takes steps until a condition holds. */
    private static void stepUntil(Gossip gossip, BooleanSupplier holds, IntSupplier each) {
        for (long begin = System.nanoTime(); !holds.getAsBoolean();) {
            assertThat(System.nanoTime() - begin).as("steps until %d", each.getAsInt()).isLessThan(TIMEOUT.toNanos());
            gossip.afterStep();
        }
    }

    /**
     * A worker that receives nothing sends half of its remaining mass each time: after k times the other one has the
     * mass 1 + (1 - 1/2^k), and the corresponding weights.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void weightsUpdatesByTheirMass(boolean shared) {
        int times = 12;
        AtomicIntegerArray received = new AtomicIntegerArray(1);
        mix(shared, new double[] {-2, 6}, new int[] {1, NEVER}, (gossip, model) -> {
            if (gossip.rank() == 0) {
                stepUntil(gossip, () -> received.get(0) >= times, () -> times);
                assertThat(weights(model)).containsOnly(-2);
                return;
            }
            for (int k = 1; k <= times; k++) {
                int next = k;
                stepUntil(gossip, () -> gossip.mixed() == next, () -> next);
                double given = 1 - Math.pow(2, -k);
                // Each of k mixtures rounds to 24 bits.
                for (double weight : weights(model)) {
                    assertThat(weight).as("after %d times", k).isCloseTo((6 - 2 * given) / (1 + given),
                            within(k * 8 * 0x1p-24));
                }
                received.set(0, k);
            }
        });
    }

    /** No mass is lost or counted twice, however often each worker publishes. */
    @Test
    void agreesOnTheMean() {
        double[] values = {0, 3, 12};
        double apart = 1e-3;
        AtomicLongArray present = new AtomicLongArray(3);
        AtomicIntegerArray mixed = new AtomicIntegerArray(3);
        AtomicIntegerArray agreed = new AtomicIntegerArray(1);
        mix(true, values, new int[] {1, 2, 5}, (gossip, model) -> {
            present.set(gossip.rank(), Double.doubleToLongBits(values[gossip.rank()]));
            stepUntil(gossip, () -> {
                present.set(gossip.rank(), Double.doubleToLongBits(weights(model)[0]));
                mixed.set(gossip.rank(), (int) gossip.mixed());
                double[] all = all(present);
                double spread = Arrays.stream(all).max().orElseThrow() - Arrays.stream(all).min().orElseThrow();
                boolean received = mixed.get(0) > 20 && mixed.get(1) > 20 && mixed.get(2) > 20;
                return agreed.get(0) == 1 || spread < apart && received && agreed.compareAndSet(0, 0, 1);
            }, () -> mixed.get(gossip.rank()));
        });
        // Updates that were in flight and have not been mixed in are a few steps old, when values were farther apart.
        for (double each : all(present)) {
            assertThat(each).isCloseTo(5, within(20 * apart));
        }
    }

    @Test
    void publishesToEachPeerAfterAnyNumberOfUpdates() {
        AtomicIntegerArray published = new AtomicIntegerArray(3);
        mix(true, new double[] {0, 3, 12}, new int[] {1, 1, 1}, (gossip, _) -> {
            gossip.nextPeer = Integer.MAX_VALUE - 1;
            stepUntil(gossip, () -> {
                published.set(gossip.rank(), (int) gossip.published());
                return published.get(0) > 5 && published.get(1) > 5 && published.get(2) > 5;
            }, () -> published.get(gossip.rank()));
        });
    }

    private static double[] all(AtomicLongArray values) {
        double[] all = new double[values.length()];
        Arrays.setAll(all, i -> Double.longBitsToDouble(values.get(i)));
        return all;
    }

    // ---- training on data that disagree ----

    private static final double RATE = 0.01;
    private static final int EXAMPLES = 600;
    private static final int BATCH = 10;
    private static final int EPOCHS = 10;
    /** By worker, the targets that it would reach alone: slope and intercept. */
    private static final double[][] TARGETS = {{3, -1}, {-1, 2}};

    /** Every second example is of another line: each worker trains on one of the two. */
    private static double[] fit(Simulation simulation, Group group, int period) {
        int world = TARGETS.length;
        float[] x = new float[world * EXAMPLES];
        float[] y = new float[x.length];
        for (int i = 0; i < x.length; i++) {
            double[] line = TARGETS[i % world];
            // An equal number of each in every batch.
            x[i] = i / world % 2 == 0 ? 1 : -1;
            y[i] = (float) (line[0] * x[i] + line[1]);
        }
        try (Scope scope = Scope.open("test");
                Gossip gossip = Gossip.of(group, period);
                Layer model = Linear.of(1, 1, Generator.seeded(group.rank()));
                Optimizer optimizer = Sgd.over(model).rate(RATE).build();
                DataLoader loader = DataLoader.of(TensorDataset.of(Tensor.of(x, x.length, 1),
                        Tensor.of(y, x.length, 1))).batchSize(BATCH).workers(0).build()) {
            Trainer.of(model, Loss.meanSquared(), optimizer).data(loader).epochs(EPOCHS).strategy(gossip)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            simulation.sleep(STEP);
                        }
                    }).build().run();
            return weights(model);
        }
    }

    private static List<double[]> fitInSimulation(int period) {
        int world = TARGETS.length;
        double[][] lines = new double[world][];
        try (Simulation simulation = Simulation.of(period)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                        SIMULATED), world, Coordinator.OnLoss.REFORM, 1, LIMIT)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int i = 0; i < world; i++) {
                int rank = i;
                String name = "rank" + rank;
                simulation.start(name, () -> {
                    GroupConfig joining = GroupConfig.of(null, "coordinator").preferredRank(rank).host(name);
                    try (Group group = Group.join(Transport.over(simulation.wire(name), SIMULATED), joining, false)) {
                        lines[rank] = fit(simulation, group, period);
                    }
                });
            }
            simulation.run(LIMIT);
        }
        return List.of(lines);
    }

    /**
     * The loss of a worker is (w - target)² in slope and intercept, so that a step moves the weight by a fraction of
     * 2·rate towards its own target: by 2·rate·T at most where targets are T apart, because weights stay between them.
     * Two workers that have mixed with the same mass are equal but for the steps since then, which are {@code period}
     * until the next update and one until it is mixed in; one of the two may be as much ahead, and at the end take as
     * many steps alone.
     */
    @ParameterizedTest
    @ValueSource(ints = {1, 3})
    void endsAtTheMeanOfTheShardsTargets(int period) {
        List<double[]> lines = fitInSimulation(period);
        int steps = EPOCHS * EXAMPLES / BATCH;
        for (int i = 0; i < 2; i++) {
            double mean = (TARGETS[0][i] + TARGETS[1][i]) / 2;
            double between = Math.abs(TARGETS[0][i] - TARGETS[1][i]);
            double left = 10 * Math.pow(1 - 2 * RATE, steps);
            double tolerance = 2 * (period + 1) * 2 * RATE * between + left;
            assertThat(tolerance).as("less than the distance of the mean from either target").isLessThan(between / 4);
            for (double[] line : lines) {
                assertThat(line[i]).isCloseTo(mean, within(tolerance));
            }
        }
    }
}
