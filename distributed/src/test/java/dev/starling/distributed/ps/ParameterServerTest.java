package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.ps.CornerImages.Outcome;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.StagedDevices;
import dev.starling.nn.Layer;
import dev.starling.nn.data.Share;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AveragedWeights;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Function;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class ParameterServerTest {
    private static final float ROUNDING = 5e-5f;

    @TempDir
    Path directory;

    private static Optimizer momentum(Layer model) {
        return Sgd.over(model).rate(Schedule.constant(0.05).warmUp(10)).momentum(0.9).weightDecay(1e-3)
                .withoutDecay(path -> path.endsWith("bias")).build();
    }

    private static List<Outcome> train(int workers, int servers, Consistency consistency, ServerConfig config,
            Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, int epochs) {
        return train(Cluster.local(workers + servers).servers(servers).timeout(Duration.ofSeconds(5)), workers,
                servers, consistency, config, network, optimizer, epochs);
    }

    private static List<Outcome> train(Cluster cluster, int workers, int servers, Consistency consistency,
            ServerConfig config, Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer,
            int epochs) {
        return cluster.run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, config);
                return null;
            }
            return CornerImages.train(network, optimizer, epochs, ParameterServer.worker(group, group.rank())
                    .workers(workers).servers(servers).consistency(consistency).build(), b -> { });
        }).stream().filter(Objects::nonNull).toList();
    }

    private static void assertEquals(Outcome outcome, Outcome expected, float tolerance) {
        expected.weights().forEach((path, t) -> assertThat(outcome.weights().get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    @ParameterizedTest
    @CsvSource({"local, 1, 1", "local, 2, 1", "local, 2, 2", "local, 3, 2", "local, 4, 1", "aeron, 2, 1"})
    void synchronousWorkersTrainLikeOneProcess(String wire, int workers, int servers) {
        Outcome alone = CornerImages.train(CornerImages::perceptron, ParameterServerTest::momentum, 10,
                new SingleProcess(),
                b -> { });
        List<Outcome> all = synchronously(wire, workers, servers);
        assertThat(all).hasSize(workers);
        assertEquals(all.getFirst(), alone, ROUNDING);
        for (Outcome each : all) {
            assertEquals(each, all.getFirst(), 0);
            assertThat(each.history().last().step()).isEqualTo(110);
            assertThat(each.history().last().training().loss()).isCloseTo(alone.history().last().training().loss(),
                    within(1e-4));
            assertThat(each.history().last().heldOut()).isEqualTo(all.getFirst().history().last().heldOut());
        }
        assertThat(alone.accuracy()).isGreaterThan(0.9);
        assertEquals(synchronously(wire, workers, servers).getLast(), all.getFirst(), 0);
    }

    private static List<Outcome> synchronously(String wire, int workers, int servers) {
        Cluster cluster = new Cluster(Cluster.transport(wire), workers + servers, Coordinator.OnLoss.END)
                .servers(servers);
        return train(cluster.timeout(Duration.ofSeconds(20)), workers, servers, new Consistency.Synchronous(),
                ServerConfig.inMemory(), CornerImages::perceptron, ParameterServerTest::momentum, 10);
    }

    /** The bits equal those of workers on the host, because the devices compute in the same way. */
    @ParameterizedTest
    @CsvSource({"2, 1", "3, 2"})
    void workersOnDevicesTrainLikeWorkersOnTheHost(int workers, int servers) {
        List<Outcome> expected = onDevices(workers, servers, _ -> Device.cpu());
        StagedDevices.reset(StagedDevices.Fault.NONE);
        List<Outcome> all = onDevices(workers, servers, StagedDevices::of);
        for (int worker = 0; worker < workers; worker++) {
            assertEquals(all.get(worker), expected.get(worker), 0);
        }
        // Each worker copies four gradients in each of 110 steps.
        assertThat(StagedDevices.COPIES.get()).isEqualTo(workers * 110L * 4);
        assertThat(StagedDevices.PINNED).hasValue(0);
    }

    private static List<Outcome> onDevices(int workers, int servers, IntFunction<Device> device) {
        return Cluster.local(workers + servers).servers(servers).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return Device.with(device.apply(group.rank()), () -> CornerImages.train(CornerImages::perceptron,
                    ParameterServerTest::momentum, 10, ParameterServer.worker(group, group.rank()).workers(workers)
                            .servers(servers).consistency(new Consistency.Synchronous()).build(), b -> { }));
        }).stream().filter(Objects::nonNull).toList();
    }

    /** Otherwise the next step would push the copy, and then its own gradient of the same parameter. */
    @Test
    void aFailedStepEndsTheRunIfADeviceCopiesItsGradients() {
        StagedDevices.reset(StagedDevices.Fault.NONE);
        Cluster.local(2).servers(1).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() == 1) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return Device.with(StagedDevices.of(0), () -> {
                try (Scope scope = Scope.open("test");
                        Layer model = Linear.of(2, 1, Generator.seeded(1));
                        Optimizer sgd = Sgd.over(model).build();
                        ParameterServer servers = ParameterServer.worker(group, 0).build()) {
                    servers.start(TrainingState.of(model, sgd));
                    servers.gradient(0, sgd.parameters().getFirst().value().onesLike());
                    servers.onFailedStep();
                    assertThatThrownBy(() -> servers.beforeStep(new Tensor[2]))
                            .isInstanceOf(DistributedException.class).hasMessageContaining("resume from a checkpoint");
                    servers.start(TrainingState.of(model, sgd));
                    servers.finish();
                }
                return null;
            });
        });
        assertThat(StagedDevices.PINNED).hasValue(0);
    }

    @Test
    void synchronousWorkersAgreeOnRunningStatistics() {
        List<Outcome> all = train(3, 1, new Consistency.Synchronous(), ServerConfig.inMemory(), CornerImages::normed,
                m -> Adam.over(m).rate(0.01).build(), 4);
        assertEquals(all.get(1), all.get(0), 0);
        assertEquals(all.get(2), all.get(0), 0);
        assertThat(all.getFirst().accuracy()).isGreaterThan(0.9);
    }

    @ParameterizedTest
    @ValueSource(ints = {-1, 0, 3})
    void asynchronousAndStaleWorkersLearn(int bound) {
        List<Outcome> all = train(3, 2, bound < 0 ? new Consistency.Asynchronous() : new Consistency.Stale(bound),
                ServerConfig.in(directory), CornerImages::perceptron, m -> Adam.over(m).rate(0.002).build(), 12);
        assertThat(all).hasSize(3);
        // Only rank 0 evaluates the held-out data.
        assertThat(all.getFirst().accuracy()).isGreaterThan(0.9);
        assertThat(Files.exists(directory.resolve("server-1").resolve("snapshot"))).isTrue();
    }

    @Test
    void oneWorkerTrainsLikeOneProcess() {
        Outcome alone = CornerImages.train(CornerImages::perceptron, m -> Adam.over(m).rate(0.002).build(), 3,
                new SingleProcess(), b -> { });
        List<Outcome> one = train(1, 2, new Consistency.Asynchronous(), ServerConfig.inMemory(),
                CornerImages::perceptron,
                m -> Adam.over(m).rate(0.002).build(), 3);
        assertEquals(one.getFirst(), alone, 1e-5f);
    }

    @Test
    void refusesToServeInAProcessThatJoinedAsAWorker() {
        assertThatThrownBy(() -> Cluster.local(1).run(group -> {
            ParameterServer.serve(group, ServerConfig.inMemory());
            return null;
        })).isInstanceOf(DistributedException.class).hasMessageContaining("new Role.Server(number)");
    }

    /** Sums do not depend on ranks, which may be those in which processes happened to join. */
    @Test
    void synchronousWorkersSumInTheOrderOfTheirNumbers() {
        double[] parts = {1e16, 1, -1e16};
        double expected = parts[0] + parts[1] + parts[2];
        List<Double> sums = Cluster.local(4).servers(1).run(group -> {
            if (group.rank() == 3) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return expected;
            }
            int number = (group.rank() + 1) % 3;
            try (Layer model = Linear.of(2, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).rate(1).build();
                    ParameterServer servers = ParameterServer.worker(group, number).workers(3)
                            .consistency(new Consistency.Synchronous()).build()) {
                servers.start(TrainingState.of(model, sgd));
                double[] many = new double[3000];
                Arrays.fill(many, parts[number]);
                servers.sum(many);
                servers.finish();
                assertThat(many).containsOnly(many[0]);
                return many[0];
            }
        });
        assertThat(sums).containsOnly(expected);
    }

    @Test
    void aSynchronousWorkerReportsHowLongItHasWaitedForTheOthers() {
        CountDownLatch reported = new CountDownLatch(1);
        TransportConfig transport = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(2));
        new Cluster(transport, 3, Coordinator.OnLoss.END).servers(1).timeout(Duration.ofSeconds(2)).run(group -> {
            if (group.rank() == 2) {
                try {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                } catch (DistributedException workersHaveLeft) {
                    assertThat(workersHaveLeft).isNotNull();
                }
                return null;
            }
            try (Layer model = Linear.of(2, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).rate(1).build();
                    ParameterServer servers = ParameterServer.worker(group, group.rank()).workers(2)
                            .consistency(new Consistency.Synchronous()).build()) {
                servers.start(TrainingState.of(model, sgd));
                if (group.rank() == 0) {
                    assertThatThrownBy(() -> servers.sum(new double[1])).isInstanceOf(DistributedException.class)
                            .hasMessageContaining("waited 2 s");
                    reported.countDown();
                }
                assertThat(reported.await(20, TimeUnit.SECONDS)).isTrue();
            }
            return null;
        });
    }

    @Test
    void synchronousWorkersNeedNumbersOfTheirOwn() {
        assertThatThrownBy(() -> Cluster.local(3).servers(1).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return CornerImages.train(CornerImages::perceptron, m -> Sgd.over(m).rate(0.01).build(), 1,
                    ParameterServer.worker(group, 1).workers(2).consistency(new Consistency.Synchronous()).build(),
                    builder -> { });
        })).isInstanceOf(DistributedException.class);
    }

    @Test
    void synchronousWorkersStopAtTheSameStep() {
        List<Long> ends = Cluster.local(4).servers(1).run(group -> {
            if (group.rank() == 3) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            AtomicLong last = new AtomicLong();
            TrainingListener listener = new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    last.set(progress.step());
                    if (group.rank() == 1 && progress.step() == 17) {
                        progress.stop();
                    }
                }
            };
            CornerImages.train(CornerImages::perceptron, ParameterServerTest::momentum, 9, ParameterServer.worker(group,
                    group.rank()).workers(3).consistency(new Consistency.Synchronous()).build(),
                    b -> b.listeners(listener).checkpoints(directory.resolve("of" + group.rank())));
            return last.get();
        }).stream().filter(Objects::nonNull).toList();
        assertThat(ends).containsOnly(18L).hasSize(3);
    }

    @Test
    void aBuilderDoesNotAffectWhatItHasBuilt() {
        Cluster.local(1).run(group -> {
            ParameterServer.Builder builder = ParameterServer.worker(group, 0).workers(2);
            try (ParameterServer built = builder.build()) {
                builder.workers(5).consistency(new Consistency.Synchronous()).ownData();
                assertThat(built.world()).isEqualTo(2);
                assertThat(built.share()).isEqualTo(Share.shard(0, 2));
            }
            return null;
        });
    }

    /** Servers do not answer a push with such a rate. */
    @Test
    void endsAtALearningRateThatServersRefuse() {
        assertThatThrownBy(() -> train(1, 1, new Consistency.Asynchronous(), ServerConfig.inMemory(),
                CornerImages::perceptron, m -> Sgd.over(m).rate(steps -> steps < 2 ? 0.1 : -0.1).build(), 1))
                .isInstanceOf(TensorException.class).hasMessageContaining("learning rate").hasMessageContaining("-0.1");
    }

    @Test
    void errorsNameTheCause() {
        assertThatThrownBy(() -> train(1, 1, new Consistency.Asynchronous(), ServerConfig.inMemory(),
                CornerImages::perceptron, m -> ClipByNorm.of(Sgd.over(m).build(), 1), 1))
                .isInstanceOf(DistributedException.class).hasMessageContaining("ClipByNorm")
                .hasMessageContaining("Sgd");
        assertThatThrownBy(() -> train(1, 1, new Consistency.Asynchronous(), ServerConfig.inMemory(),
                CornerImages::perceptron, m -> AveragedWeights.exponential(Sgd.over(m).build(), 0.9), 1))
                .isInstanceOf(DistributedException.class).hasMessageContaining("without AveragedWeights");
        assertThatThrownBy(() -> Cluster.local(3).servers(1).timeout(Duration.ofSeconds(5)).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            // Worker 1 has another optimiser than worker 0.
            int rank = group.rank();
            Function<Layer, Optimizer> optimizer = m -> rank == 0 ? Sgd.over(m).build() : Adam.over(m).build();
            return CornerImages.train(CornerImages::perceptron, optimizer, 2, ParameterServer.worker(group, rank)
                    .build(),
                    b -> { });
        })).isInstanceOf(SettingsMismatchException.class).hasMessageContaining("optimiser is Sgd[");
    }
}
