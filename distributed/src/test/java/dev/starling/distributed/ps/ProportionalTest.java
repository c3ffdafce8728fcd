package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Share;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import java.util.function.IntConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Workers of different speeds divide batches, in simulated time, in which their speeds are known exactly. */
@Timeout(120)
class ProportionalTest {
    private static final float ROUNDING = 5e-5f;
    private static final int EPOCHS = 6;
    private static final int STEPS = 11 * EPOCHS;
    private static final Duration LIMIT = Duration.ofMinutes(2);
    private static final TransportConfig SIMULATED = TransportConfig.of("simulated", Secret.ofText("of 16 bytes, or "
            + "more")).livenessTimeout(Duration.ofMillis(200));

    /** Takes a time that depends on the number of rows. The buffer holds the rank after each step. */
    private record Timed(Layer inner, Parameter owner, IntConsumer time) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            time.accept((int) x.size(0));
            return inner.forward(x);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("inner", inner);
            visitor.parameter("owner", owner);
        }
    }

    /** A worker's share of each step's batch, and its final weights. */
    private record Run(List<Share.Part> parts, Map<String, float[]> weights) { }

    private static Run train(DistributionStrategy strategy, IntConsumer time) {
        List<Share.Part> parts = new ArrayList<>();
        Parameter owner = Parameter.buffer(Tensor.zeros(1));
        try (Scope scope = Scope.open("worker");
                Layer net = new Timed(CornerImages.perceptron(Generator.seeded(5 + strategy.rank())), owner, time);
                Optimizer optimizer = Sgd.over(net).rate(0.05).momentum(0.9).build();
                DataLoader data = DataLoader.of(new CornerImages(CornerImages.EXAMPLES)).batchSize(32).workers(0)
                        .seed(3)
                        .shuffle().build(); strategy) {
            Trainer.of(net, Loss.crossEntropy(), optimizer).data(data).epochs(EPOCHS).seed(9).strategy(strategy)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            parts.add((Share.Part) strategy.share());
                            owner.set(Tensor.of(new float[] {strategy.rank()}, 1));
                        }
                    }).build().run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            net.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
            return new Run(parts, weights);
        }
    }

    /** Trains workers, each of which takes the given number of milliseconds for a row, with servers. */
    private static List<Run> simulate(int servers, int... millisPerRow) {
        int workers = millisPerRow.length;
        Run[] runs = new Run[workers];
        try (Simulation simulation = Simulation.of(workers)) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                        SIMULATED), workers + servers, Coordinator.OnLoss.END, 1, LIMIT)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int i = 0; i < workers + servers; i++) {
                int rank = i;
                String name = "rank" + rank;
                simulation.start(name, () -> {
                    GroupConfig joining = GroupConfig.of(null, "coordinator").place(rank, workers).host(name);
                    try (Group group = Group.join(Transport.over(simulation.wire(name), SIMULATED), joining, false)) {
                        if (rank >= workers) {
                            ParameterServer.serve(group, ServerConfig.inMemory().ringSize(0));
                        } else {
                            runs[rank] = train(ParameterServer.worker(group, rank).workers(workers).servers(servers)
                                    .consistency(new Consistency.Synchronous()).proportional().build(),
                                    rows -> simulation.sleep(Duration.ofMillis((long) rows * millisPerRow[rank])));
                        }
                    }
                });
            }
            simulation.run(LIMIT);
        }
        return List.of(runs);
    }

    private static double size(Share.Part part) {
        return (part.to() - part.from()) / (double) part.of();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void givesASlowWorkerLessAndTrainsLikeOneProcess(int servers) {
        Run alone = train(new SingleProcess(), rows -> { });
        List<Run> runs = simulate(servers, 1, 2, 4);
        for (int step = 0; step < STEPS; step++) {
            int at = 0;
            for (Run run : runs) {
                Share.Part part = run.parts().get(step);
                assertThat(part.from()).as("step %d: one begins where another ends", step).isEqualTo(at);
                at = part.to();
            }
            assertThat(at).isEqualTo(runs.getFirst().parts().get(step).of());
        }
        double[] first = runs.stream().mapToDouble(run -> size(run.parts().getFirst())).toArray();
        double[] last = runs.stream().mapToDouble(run -> size(run.parts().getLast())).toArray();
        assertThat(first).containsExactly(new double[] {1 / 3.0, 1 / 3.0, 1 / 3.0}, within(1e-9));
        assertThat(last).containsExactly(new double[] {4 / 7.0, 2 / 7.0, 1 / 7.0}, within(1e-3));
        alone.weights().forEach((path, values) -> {
            float[] trained = runs.getFirst().weights().get(path);
            runs.forEach(run -> assertThat(run.weights().get(path)).as(path).containsExactly(trained));
            if (path.equals("owner")) {
                assertThat(trained[0]).as("buffers weigh as much as workers").isCloseTo((float) (last[1] + 2 * last[2]),
                        within(1e-5f));
            } else {
                assertThat(trained).as(path).containsExactly(values, within(ROUNDING));
            }
        });
    }

    @Test
    void trainsInThreadsLikeOneProcess() {
        Run alone = train(new SingleProcess(), rows -> { });
        List<Run> runs = Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return train(ParameterServer.worker(group, group.rank()).consistency(new Consistency.Synchronous())
                    .proportional().build(), rows -> sleep(rows * (group.rank() == 0 ? 100_000L : 400_000L)));
        });
        alone.weights().forEach((path, values) -> {
            float[] trained = runs.getFirst().weights().get(path);
            assertThat(runs.get(1).weights().get(path)).as(path).containsExactly(trained);
            if (!path.equals("owner")) {
                assertThat(trained).as(path).containsExactly(values, within(ROUNDING));
            }
        });
        // The division depends on the load of the machine.
        assertThat(runs.getFirst().parts()).doesNotContainSequence(Collections.nCopies(STEPS,
                runs.getFirst().parts().getFirst()));
        for (int step = 0; step < STEPS; step++) {
            assertThat(runs.get(1).parts().get(step).from()).isEqualTo(runs.get(0).parts().get(step).to());
        }
    }

    private static void sleep(long ns) {
        long until = System.nanoTime() + ns;
        while (System.nanoTime() < until) {
            LockSupport.parkNanos(until - System.nanoTime());
        }
    }

    @Test
    void dividesEvenlyByDefault() {
        List<Run> runs = Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return train(ParameterServer.worker(group, group.rank()).consistency(new Consistency.Synchronous())
                    .build(), rows -> sleep(rows * (group.rank() == 0 ? 1_000L : 50_000L)));
        });
        assertThat(runs.get(1).parts()).containsOnly(new Share.Part(1, 2, 2));
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 0, 3})
    void refusesConsistenciesWithoutSharedBatches(int bound) {
        Consistency apart = bound < 0 ? new Consistency.Asynchronous() : new Consistency.Stale(bound);
        assertThatThrownBy(() -> Cluster.local(1).run(group -> ParameterServer.worker(group, 0).workers(2)
                .consistency(apart).proportional().build())).isInstanceOf(TensorException.class)
                .hasMessageContaining("proportional()")
                .hasMessageContaining(bound < 0 ? "Asynchronous" : "bound=" + bound)
                .hasMessageContaining("use Consistency.Synchronous");
    }

    @Test
    void refusesWorkersThatDivideDifferently() {
        assertThatThrownBy(() -> Cluster.local(3).servers(1).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            ParameterServer.Builder builder = ParameterServer.worker(group, group.rank())
                    .consistency(new Consistency.Synchronous());
            return train((group.rank() == 1 ? builder.proportional() : builder).build(), rows -> { });
        })).isInstanceOf(SettingsMismatchException.class)
                .hasMessageContaining("proportional() is false on worker 0, true on worker 1")
                .hasMessageContaining("give all workers the same settings");
    }
}
