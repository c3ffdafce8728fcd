package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Channels;
import dev.starling.distributed.Cluster;
import dev.starling.distributed.Coordinator;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
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
import dev.starling.transport.TransportConfig;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class GossipTest {
    private static final int EXAMPLES = 600;
    private static final int OFFER_BYTES = 32;
    private static final Duration SOON = Duration.ofSeconds(10);
    /** No worker is done before another has begun. */
    private static final TrainingListener SLOWLY = new TrainingListener() {
        @Override
        public void stepEnded(Progress progress) {
            LockSupport.parkNanos(500_000);
        }
    };

    /** Fits y = 3x - 1: each worker sees other examples, and all end at the same line. */
    private static double[] fit(Group group) {
        int rank = group.rank();
        try (Scope scope = Scope.open("test");
                Gossip gossip = Gossip.of(group, 2);
                Layer model = Linear.of(1, 1, Generator.seeded(rank));
                Optimizer optimizer = Sgd.over(model).rate(0.05).build()) {
            float[] x = new float[EXAMPLES];
            float[] y = new float[EXAMPLES];
            for (int i = 0; i < EXAMPLES; i++) {
                x[i] = (i % 41) / 20f - 1;
                y[i] = 3 * x[i] - 1;
            }
            TensorDataset data = TensorDataset.of(Tensor.of(x, EXAMPLES, 1), Tensor.of(y, EXAMPLES, 1));
            try (DataLoader loader = DataLoader.of(data).batchSize(10).workers(0).shuffle().build()) {
                Trainer.of(model, Loss.meanSquared(), optimizer).data(loader).epochs(40).strategy(gossip)
                        .listeners(SLOWLY).build()
                        .run();
            }
            double[] line = new double[3];
            int[] i = new int[1];
            model.parameters().values().forEach(p -> line[i[0]++] = p.value().item());
            line[2] = gossip.mixed();
            return line;
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void agreesOnTheLine(boolean shared) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(5))
                .sharedMemory(shared);
        assertAgree(new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(GossipTest::fit));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void waitsForAWorkerThatBeginsLate(int late) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(5));
        assertAgree(new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            if (group.rank() == late) {
                Thread.sleep(300);
            }
            return fit(group);
        }));
    }

    // ---- checkpoints ----

    /** Where a worker was when it began and at its end: the step, slope and intercept. */
    private record Way(long begin, double[] first, long end, double[] last) {
        /** Returns by how much slope or intercept is farther from its target than another one; more than 0 if it is. */
        private static double excess(double[] values, double[] others) {
            return Math.max(values[0] - others[0], values[1] - others[1]);
        }
    }

    /** Approaches slope 3 and intercept -1 from 10, by 1 % of the way in each step: one sees who began where. */
    private static Way approach(Group group, AtomicInteger begun, int epochs, Consumer<Trainer.Builder> more) {
        try (Scope scope = Scope.open("test");
                Gossip gossip = Gossip.of(group, 2);
                Layer model = Linear.of(1, 1, Generator.seeded(1));
                Optimizer optimizer = Sgd.over(model).rate(0.005).build()) {
            model.parameters().values().forEach(p -> p.set(Tensor.full(p.value().dtype(), 10, p.shape().dims())));
            float[] x = new float[EXAMPLES];
            float[] y = new float[EXAMPLES];
            for (int i = 0; i < EXAMPLES; i++) {
                x[i] = i / group.world() % 2 == 0 ? 1 : -1;
                y[i] = 3 * x[i] - 1;
            }
            double[] first = new double[2];
            long[] begin = new long[1];
            TrainingListener pace = new TrainingListener() {
                @Override
                public void started(Progress progress) {
                    begin[0] = progress.step();
                    System.arraycopy(weights(model), 0, first, 0, 2);
                    begun.incrementAndGet();
                }

                @Override
                public void stepEnded(Progress progress) {
                    // Nobody is to be done before all have begun.
                    LockSupport.parkNanos(begun.get() < group.world() ? 50_000_000 : 500_000);
                }
            };
            TensorDataset data = TensorDataset.of(Tensor.of(x, EXAMPLES, 1), Tensor.of(y, EXAMPLES, 1));
            try (DataLoader loader = DataLoader.of(data).batchSize(10).workers(0).build()) {
                Trainer.Builder builder = Trainer.of(model, Loss.meanSquared(), optimizer).data(loader).epochs(epochs)
                        .strategy(gossip).listeners(pace);
                more.accept(builder);
                Trainer trainer = builder.build();
                trainer.run();
                return new Way(begin[0], first, trainer.progress().step(), weights(model));
            }
        }
    }

    private static double[] weights(Layer model) {
        return model.parameters().values().stream().mapToDouble(p -> p.value().item()).toArray();
    }

    /** Makes a checkpoint: of one worker after an epoch of 60 steps, of two after two of 30. */
    private static Way save(TransportConfig config, int workers, Path directory) {
        AtomicInteger begun = new AtomicInteger();
        Way saved = new Cluster(config, workers, Coordinator.OnLoss.REFORM).run(group ->
                approach(group, begun, workers, b -> b.checkpoints(directory))).getFirst();
        assertThat(saved.end).isEqualTo(60);
        return saved;
    }

    @Test
    void goesOnFromACheckpointWithAnotherNumberOfWorkers(@TempDir Path directory) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(5));
        // Each of two workers takes 30 steps in an epoch, each of three 20.
        Way saved = save(config, 2, directory);
        assertThat(saved.last[0]).isBetween(3 + 7 * 0.4, 3 + 7 * 0.7);
        AtomicInteger three = new AtomicInteger();
        List<Way> all = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group ->
                approach(group, three, 4, b -> b.checkpoints(directory).resume()));
        assertThat(all.getFirst().begin).isEqualTo(60);
        assertThat(all.getFirst().first).containsExactly(saved.last);
        for (Way each : all) {
            // The others begin with what rank 0 read, or a few steps later.
            assertThat(each.begin).isGreaterThanOrEqualTo(60);
            assertThat(Way.excess(each.first, saved.last)).isLessThanOrEqualTo(0);
            assertThat(each.end).isEqualTo(100);
            assertThat(Way.excess(each.last, saved.last)).isNegative();
        }
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(100);
    }

    /** Rank 0 would have read the checkpoint; nobody is to begin anew because it is gone, and write over it. */
    @Test
    void goesOnFromACheckpointWithoutTheOneThatWasFirst(@TempDir Path directory) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).silence(Duration.ofSeconds(5));
        Way saved = save(config, 1, directory);
        AtomicInteger rest = new AtomicInteger(1);
        List<Way> all = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            if (group.rank() == 0) {
                return null;
            }
            long first = group.world() < 3 ? -1 : group.view().members().getFirst().id();
            assertThat(group.await(() -> group.endpoint(first) == null || !group.endpoint(first).isConnected(), SOON))
                    .isTrue();
            return approach(group, rest, 4, b -> b.checkpoints(directory).resume());
        });
        for (Way each : all.subList(1, 3)) {
            assertThat(each.begin).isGreaterThanOrEqualTo(60);
            assertThat(Way.excess(each.first, saved.last)).isLessThanOrEqualTo(0);
        }
        assertThat(all.get(1).first).containsExactly(saved.last);
    }

    /** The group goes on after the training; members that come and go then are no business of the strategy's. */
    @Test
    void meetsNobodyAfterTheEnd() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        new Cluster(config, 1, Coordinator.OnLoss.REFORM).run(group -> {
            AtomicInteger heard = new AtomicInteger();
            try (Layer model = Linear.of(1, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).build();
                    Group stays = guest(group, heard)) {
                TrainingState state = TrainingState.of(model, sgd);
                Gossip first = Gossip.of(group);
                first.close();
                first.start(state);
                assertThat(first.peers()).isEqualTo(1);
                assertThat(stays.await(() -> heard.getAndSet(0) == 1, SOON)).isTrue();
                first.close();
                assertThat(first.peers()).isZero();
                for (int guests = 1; guests <= 2; guests++) {
                    long epoch = group.epoch();
                    try (Group goes = guest(group, heard)) {
                        assertThat(goes.world()).isEqualTo(3);
                        assertThat(group.await(() -> group.failure() == null && group.epoch() > epoch, SOON)).isTrue();
                    }
                }
                assertThat(stays.await(() -> heard.get() > 0, Duration.ofMillis(200))).isFalse();
                assertThat(first.peers()).isZero();
                try (Gossip second = Gossip.of(group)) {
                    second.start(state);
                    first.close();
                    assertThat(second.peers()).isEqualTo(1);
                    assertThat(stays.await(() -> heard.get() == 1, SOON)).isTrue();
                    // It does not make the second deaf.
                    stays.locked(() -> stays.endpoint(group.self().id()).send(offer("a tensor"), 0, OFFER_BYTES));
                    assertThatThrownBy(() -> {
                        for (long begin = System.nanoTime(); System.nanoTime() - begin < SOON.toNanos();) {
                            second.afterStep();
                        }
                    }).isInstanceOf(DistributedException.class).hasMessageContaining("another model: it has a tensor");
                }
            }
            return null;
        });
    }

    /** What a worker says that trains a model of one tensor. */
    private static UnsafeBuffer offer(String tensor) {
        UnsafeBuffer offer = new UnsafeBuffer(new byte[OFFER_BYTES]);
        offer.putInt(0, Channels.GOSSIP, ByteOrder.LITTLE_ENDIAN);
        offer.putInt(4, 1, ByteOrder.LITTLE_ENDIAN);
        offer.putInt(20, tensor.length(), ByteOrder.LITTLE_ENDIAN);
        offer.putStringWithoutLengthAscii(24, tensor);
        return offer;
    }

    /** Joins a group, and counts what gossip tells it. */
    private static Group guest(Group group, AtomicInteger heard) {
        Group guest = Group.join(group.config().preferredRank(-1));
        guest.channel(Channels.GOSSIP, (from, buffer, offset, length) -> heard.incrementAndGet());
        return guest;
    }

    private static void assertAgree(List<double[]> lines) {
        assertThat(lines.stream().mapToDouble(line -> line[2]).sum()).isPositive();
        for (double[] line : lines) {
            assertThat(Math.max(line[0], line[1])).isBetween(2.9, 3.1);
            assertThat(Math.min(line[0], line[1])).isBetween(-1.1, -0.9);
        }
    }
}
