package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.MappedMemory;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.coordinator.CoordinatorThread;
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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
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
    private static final RunSettings OTHERS = new RunSettings(Map.of("loss", "a tensor"));
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
                    send(remaining, group, announcement(), new GossipMessage.Settings(OTHERS));
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

    /**
     * Rank 0 begins another run, with another learning rate, while rank 1 has concluded the first one and has not left
     * it yet, as where it still measures and saves the model.
     */
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void trainsAgainWhileAnotherWorkerIsInTheFirstRun(boolean withTheSame) {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch mixed = new CountDownLatch(2);
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        new Cluster(config, 2, Coordinator.OnLoss.REFORM).timeout(Duration.ofSeconds(3)).run(group -> {
            Gossip first = Gossip.of(group, 1);
            try (Layer model = Linear.of(1, 1, Generator.seeded(1));
                    Layer other = Linear.of(1, 1, Generator.seeded(2));
                    Optimizer slow = Sgd.over(model).rate(0.1).build();
                    Optimizer fast = Sgd.over(other).rate(0.2).build();
                    Gossip second = withTheSame ? first : Gossip.of(group, 1)) {
                first.start(TrainingState.of(model, slow));
                first.conclude();
                if (group.rank() == 1) {
                    assertThat(begun.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
                    // Receives what rank 0 has sent in its second run.
                    group.locked(() -> group.transport().doWork());
                }
                if (!withTheSame) {
                    first.close();
                }
                second.start(TrainingState.of(other, fast));
                begun.countDown();
                boolean counted = false;
                for (long begin = System.nanoTime(); mixed.getCount() > 0;) {
                    assertThat(System.nanoTime() - begin).isLessThan(TIMEOUT.toNanos());
                    second.afterStep();
                    if (!counted && second.mixed() > 0) {
                        counted = true;
                        mixed.countDown();
                    }
                }
                second.conclude();
            }
            return null;
        });
    }

    /** Rank 0 takes no step in its second run, and has finished it before rank 1 leaves the first one. */
    @Test
    void concludesWithAWorkerThatBeginsTheRunLater() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        CountDownLatch listens = new CountDownLatch(1);
        List<double[]> ends = new Cluster(config, 2, Coordinator.OnLoss.REFORM).timeout(Duration.ofSeconds(3))
                .run(group -> {
                    AtomicInteger received = new AtomicInteger();
                    try (Scope scope = Scope.open("test");
                            Layer model = Linear.of(1, 1, Generator.seeded(1));
                            Optimizer sgd = Sgd.over(model).build();
                            Gossip gossip = Gossip.of(group)) {
                        gossip.start(TrainingState.of(model, sgd));
                        gossip.conclude();
                        if (group.rank() == 0) {
                            assertThat(listens.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
                        } else {
                            gossip.close();
                            group.channel(Gossip.CHANNEL, (from, buffer, offset, length) -> received.incrementAndGet());
                            listens.countDown();
                            assertThat(group.await(() -> received.get() > 0, TIMEOUT)).isTrue();
                            // A second message, if there is one, follows at once.
                            group.await(() -> received.get() > 1, Duration.ofMillis(200));
                        }
                        gossip.start(TrainingState.of(model, sgd));
                        model.parameters().values().forEach(p -> p.set(Tensor.full(p.value().dtype(),
                                2 + 2 * group.rank(), p.shape().dims())));
                        gossip.conclude();
                        return weights(model);
                    }
                });
        assertThat(ends).allSatisfy(end -> assertThat(end).containsOnly(3));
    }

    /** As those of a worker in a run that this one has ended without it. */
    @Test
    void ignoresMessagesBeforeAnAnnouncement() {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        new Cluster(config, 1, Coordinator.OnLoss.REFORM).run(group -> {
            AtomicInteger received = new AtomicInteger();
            try (Layer model = Linear.of(1, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).build();
                    Membership guest = guest(group, received);
                    Gossip gossip = Gossip.of(group)) {
                gossip.start(TrainingState.of(model, sgd));
                send(guest, group, new GossipMessage.Settings(OTHERS), announcement());
                // The announcement, and after that of the guest another one and the settings.
                assertThat(guest.await(() -> received.get() == 3, TIMEOUT)).isTrue();
                gossip.afterStep();
            }
            return null;
        });
    }

    /** Otherwise it would not ask to be let in again. */
    @Test
    void isCutOffFromTheStart() throws Exception {
        TransportConfig config = TransportConfig.of("local", Secret.random());
        CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(config,
                CoordinatorConfig.of(2, Coordinator.OnLoss.REFORM).quorum(new Quorum.None())));
        GroupConfig first = GroupConfig.of(config, coordinator.address()).preferredRank(0);
        FutureTask<Membership> second = new FutureTask<>(() -> Membership.join(first.preferredRank(1)));
        Thread.ofPlatform().daemon().start(second);
        try (Membership group = Membership.join(first);
                Membership other = second.get(TIMEOUT.toSeconds(), TimeUnit.SECONDS);
                Layer model = Linear.of(1, 1, Generator.seeded(1));
                Optimizer sgd = Sgd.over(model).build();
                Gossip gossip = Gossip.of(group)) {
            long id = other.self().id();
            coordinator.close();
            other.close();
            assertThat(group.awaitLocked(() -> group.isCoordinatorLost() && !group.endpoint(id).isConnected(),
                    TIMEOUT)).isTrue();
            gossip.start(TrainingState.of(model, sgd));
            gossip.afterStep();
            assertThat(gossip.isCutOff()).isTrue();
        } finally {
            coordinator.close();
        }
    }

    /** Rank 2 begins before rank 0 is lost, and rank 1 after that, when rank 2 has the rank that rank 1 had. */
    @Test
    void comparesSettingsAfterRanksHaveChanged() {
        TransportConfig config = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        List<String> ends = new Cluster(config, 3, Coordinator.OnLoss.REFORM).run(group -> {
            int number = group.rank();
            if (number == 0) {
                AtomicInteger received = new AtomicInteger();
                group.channel(Gossip.CHANNEL, (from, buffer, offset, length) -> received.incrementAndGet());
                assertThat(group.await(() -> received.get() > 0, TIMEOUT)).isTrue();
                group.locked(() -> group.transport().close());
                return "";
            }
            if (number == 1) {
                assertThat(group.awaitLocked(() -> group.failure() == null && group.epoch() == 2, TIMEOUT)).isTrue();
            }
            try (Layer model = Linear.of(1, 1, Generator.seeded(1));
                    Optimizer sgd = Sgd.over(model).rate(number == 1 ? 0.1 : 0.2).build();
                    Gossip gossip = Gossip.of(group)) {
                gossip.start(TrainingState.of(model, sgd));
                return "no difference";
            } catch (SettingsMismatchException e) {
                return e.getMessage();
            }
        });
        assertThat(ends.subList(1, 3)).allSatisfy(end -> assertThat(end)
                .contains("learning rate is 0.1 on rank 0, 0.2 on rank 1"));
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

    /** Returns the announcement of a worker that trains with another loss. */
    private static GossipMessage announcement() {
        return new GossipMessage.Announcement(0, OTHERS.checksum(), new byte[0], 0, "none");
    }

    private static void send(Membership from, Membership to, GossipMessage... messages) {
        for (GossipMessage each : messages) {
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
