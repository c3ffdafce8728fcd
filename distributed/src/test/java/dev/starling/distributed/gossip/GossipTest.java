package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.MappedMemory;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Membership;
import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.Checkpoint;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.RunSettings;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Consumer;
import org.agrona.ExpandableArrayBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(120)
class GossipTest {
    private static final int EXAMPLES = 600;
    private static final Duration TIMEOUT = Duration.ofSeconds(10);
    /** Slows training down, so that no worker finishes before another has started. */
    private static final TrainingListener SLOW_STEPS = new TrainingListener() {
        @Override
        public void stepEnded(Progress progress) {
            LockSupport.parkNanos(500_000);
        }
    };

    /** Fits y = 3x - 1: each worker trains on other examples, and all end at the same line. */
    private static double[] fit(Membership group) {
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
                        .listeners(SLOW_STEPS).build()
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
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5))
                .sharedMemory(shared);
        assertAgree(new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(GossipTest::fit));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void waitsForAWorkerThatStartsLate(int late) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        assertAgree(new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            if (group.rank() == late) {
                Thread.sleep(300);
            }
            return fit(group);
        }));
    }

    // ---- checkpoints ----

    /** A worker's state at its start and at its end: the step, slope and intercept. */
    private record Trajectory(long begin, double[] first, long end, double[] last) {
        /** Returns by how much slope or intercept is farther from its target than another one; positive if it is. */
        private static double excess(double[] values, double[] others) {
            return Math.max(values[0] - others[0], values[1] - others[1]);
        }
    }

    /**
     * Approaches slope 3 and intercept -1 from 10, by 1 % of the difference in each step, so that the start of each
     * worker shows.
     */
    private static Trajectory approach(Group group, AtomicInteger begun, int epochs, Consumer<Trainer.Builder> more) {
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
                    // No worker may finish before all have started.
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
                return new Trajectory(begin[0], first, trainer.progress().step(), weights(model));
            }
        }
    }

    private static double[] weights(Layer model) {
        return model.parameters().values().stream().mapToDouble(p -> p.value().item()).toArray();
    }

    /** Writes a checkpoint: of one worker after an epoch of 60 steps, of two workers after two epochs of 30. */
    private static Trajectory save(TransportConfig config, int workers, Path directory) {
        AtomicInteger begun = new AtomicInteger();
        Trajectory saved = new Cluster(config, workers, Coordinator.OnLoss.REFORM).run(group ->
                approach(group, begun, workers, b -> b.checkpoints(directory))).getFirst();
        assertThat(saved.end).isEqualTo(60);
        return saved;
    }

    @Test
    void resumesFromACheckpointWithAnotherNumberOfWorkers(@TempDir Path directory) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        // Each of two workers takes 30 steps in an epoch, each of three 20.
        Trajectory saved = save(config, 2, directory);
        assertThat(saved.last[0]).isBetween(3 + 7 * 0.4, 3 + 7 * 0.7);
        AtomicInteger three = new AtomicInteger();
        List<Trajectory> all = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group ->
                approach(group, three, 4, b -> b.checkpoints(directory).resume()));
        assertThat(all.getFirst().begin).isEqualTo(60);
        assertThat(all.getFirst().first).containsExactly(saved.last);
        for (Trajectory each : all) {
            // The others start with the weights that rank 0 read, or a few steps later.
            assertThat(each.begin).isGreaterThanOrEqualTo(60);
            assertThat(Trajectory.excess(each.first, saved.last)).isLessThanOrEqualTo(0);
            assertThat(each.end).isEqualTo(100);
            assertThat(Trajectory.excess(each.last, saved.last)).isNegative();
        }
        assertThat(Checkpoint.latest(directory).orElseThrow().step()).isEqualTo(100);
    }

    /**
     * The former rank 0 would have read the checkpoint; its loss must not make another worker start from scratch and
     * overwrite it.
     */
    @Test
    void resumesFromACheckpointWithoutTheFormerRankZero(@TempDir Path directory) {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        Trajectory saved = save(config, 1, directory);
        AtomicInteger rest = new AtomicInteger(1);
        List<Trajectory> all = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            if (group.rank() == 0) {
                return null;
            }
            long first = group.world() < 3 ? -1 : group.view().members().getFirst().id();
            assertThat(group.await(() -> group.endpoint(first) == null || !group.endpoint(first).isConnected(),
                    TIMEOUT)).isTrue();
            return approach(group, rest, 4, b -> b.checkpoints(directory).resume());
        });
        for (Trajectory each : all.subList(1, 3)) {
            assertThat(each.begin).isGreaterThanOrEqualTo(60);
            assertThat(Trajectory.excess(each.first, saved.last)).isLessThanOrEqualTo(0);
        }
        assertThat(all.get(1).first).containsExactly(saved.last);
    }

    /** The group continues after the training; members that join and leave afterwards do not concern the strategy. */
    @Test
    void ignoresNewMembersAfterTheEnd() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        new Cluster(config, 1, Coordinator.OnLoss.REFORM).run(group -> {
            AtomicInteger received = new AtomicInteger();
            try (Layer model = Linear.of(1, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).build();
                    Membership remaining = guest(group, received)) {
                TrainingState state = TrainingState.of(model, sgd);
                Gossip first = Gossip.of(group);
                first.close();
                first.start(state);
                assertThat(first.peers()).isEqualTo(1);
                assertThat(remaining.await(() -> received.getAndSet(0) == 1, TIMEOUT)).isTrue();
                first.close();
                assertThat(first.peers()).isZero();
                for (int guests = 1; guests <= 2; guests++) {
                    long epoch = group.epoch();
                    try (Membership leaving = guest(group, received)) {
                        assertThat(leaving.world()).isEqualTo(3);
                        assertThat(group.await(() -> group.failure() == null && group.epoch() > epoch, TIMEOUT))
                                .isTrue();
                    }
                }
                assertThat(remaining.await(() -> received.get() > 0, Duration.ofMillis(200))).isFalse();
                assertThat(first.peers()).isZero();
                try (Gossip second = Gossip.of(group)) {
                    second.start(state);
                    first.close();
                    assertThat(second.peers()).isEqualTo(1);
                    assertThat(remaining.await(() -> received.get() == 1, TIMEOUT)).isTrue();
                    // Closing the first must not stop the second from receiving.
                    announce(remaining, group);
                    assertThatThrownBy(() -> {
                        for (long begin = System.nanoTime(); System.nanoTime() - begin < TIMEOUT.toNanos();) {
                            second.afterStep();
                        }
                    }).isInstanceOf(SettingsMismatchException.class)
                            .hasMessageContaining("model is Linear on rank 0, absent on rank 1");
                }
            }
            return null;
        });
    }

    /** The group's thread, whose work includes heartbeats, leaves memory for new members to the training thread. */
    @Test
    void allocatesMemoryForANewMemberBetweenSteps() {
        assumeTrue(MappedMemory.isAvailable());
        long bytes = 4 * 300 * 1000 + 4032;
        TransportConfig config = TransportConfig.of("local", Secret.random());
        new Cluster(config, 1, Coordinator.OnLoss.REFORM).run(group -> {
            AtomicInteger received = new AtomicInteger();
            try (Layer model = Linear.of(300, 1000, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).build();
                    Gossip gossip = Gossip.of(group)) {
                gossip.start(TrainingState.of(model, sgd));
                assertThat(MappedMemory.count(bytes)).isEqualTo(1);
                try (Membership guest = guest(group, received)) {
                    assertThat(group.await(() -> gossip.peers() == 1, TIMEOUT)).isTrue();
                    assertThat(guest.await(() -> received.get() > 0, Duration.ofMillis(200))).isFalse();
                    assertThat(MappedMemory.count(bytes)).isEqualTo(1);
                    gossip.afterStep();
                    assertThat(guest.await(() -> received.get() == 1, TIMEOUT)).isTrue();
                    assertThat(MappedMemory.count(bytes)).isEqualTo(2);
                }
            }
            assertThat(MappedMemory.count(bytes)).isZero();
            return null;
        });
    }

    /** Sends the announcement and the settings of a worker that trains with another loss. */
    private static void announce(Membership from, Membership to) {
        RunSettings settings = new RunSettings(Map.of("loss", "a tensor"));
        for (GossipMessage each : List.of(new GossipMessage.Announcement(0, settings.checksum(), new byte[0], 0,
                "none"), new GossipMessage.Settings(settings))) {
            ExpandableArrayBuffer message = new ExpandableArrayBuffer();
            int length = GossipMessage.write(message, each);
            from.locked(() -> from.endpoint(to.self().id()).send(message, 0, length));
        }
    }

    /** Joins a group, and counts messages of gossip. */
    private static Membership guest(Membership group, AtomicInteger received) {
        Membership guest = Membership.join(group.config().preferredRank(-1));
        guest.channel(Gossip.CHANNEL, (from, buffer, offset, length) -> received.incrementAndGet());
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
