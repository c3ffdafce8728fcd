package dev.starling.distributed.conformance;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Quorum;
import dev.starling.distributed.QuorumLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorConfig;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.checkpoint.Checkpoint;
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
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.Simulation;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * The network divides a group that saves checkpoints: coordinator and rank 0 on one side, ranks 1 and 2 on the other,
 * which are the majority. Only the majority's work is in the checkpoints.
 */
class DividedCheckpointsTest {
    private static final int WORLD = 3;
    private static final Duration SILENCE = Duration.ofMillis(100);
    private static final Duration TIMEOUT = Duration.ofSeconds(5);
    private static final Duration LIMIT = Duration.ofSeconds(60);
    private static final Duration CUT = Duration.ofMillis(200);
    private static final Duration PACE = Duration.ofMillis(8);
    private static final int BATCH = 12;
    private static final int BATCHES = 4;
    private static final int EPOCHS = 40;
    private static final int STEPS_PER_CHECKPOINT = 5;
    private static final TransportConfig TRANSPORT = TransportConfig.of("simulated",
            Secret.ofText("a secret of simulated processes")).livenessTimeout(SILENCE);

    /** By process and step, when it was done, and the weights after it. */
    private final Map<String, TreeMap<Long, Step>> steps = new TreeMap<>();
    /** By step of a checkpoint, the process that saved it last. */
    private final Map<Long, String> savers = new TreeMap<>();
    private final Map<String, RuntimeException> failures = new TreeMap<>();

    @TempDir
    Path top;

    private record Step(Duration at, float[] weights) { }

    @BeforeEach
    void createSteps() {
        for (int rank = 0; rank < WORLD; rank++) {
            steps.put("rank" + rank, new TreeMap<>());
        }
    }

    /** Trains; each process saves its checkpoints in the same directory, or in one of its own. */
    private void run(Quorum quorum, Duration cut, boolean apart, int stepsPerCheckpoint,
            Function<Group, DistributionStrategy> strategy) {
        try (Simulation simulation = Simulation.of(1)) {
            simulation.plan(new Fault.Cut(CUT, cut, Set.of("coordinator", "rank0"), Set.of("rank1", "rank2"), true));
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"),
                        TRANSPORT), CoordinatorConfig.of(WORLD, Coordinator.OnLoss.REFORM).quorum(quorum))) {
                    coordinator.run(TIMEOUT);
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int rank = 0; rank < WORLD; rank++) {
                String name = "rank" + rank;
                GroupConfig config = GroupConfig.of(null, "coordinator").preferredRank(rank).host(name)
                        .joinTimeout(TIMEOUT).timeout(TIMEOUT);
                simulation.start(name, () -> {
                    try (Group group = Group.join(Transport.over(simulation.wire(name), TRANSPORT), config, false)) {
                        train(simulation, strategy.apply(group), name, apart ? top.resolve(name) : top,
                                stepsPerCheckpoint);
                    } catch (RuntimeException e) {
                        failures.put(name, e);
                    }
                });
            }
            simulation.run(LIMIT);
        }
    }

    private void train(Simulation simulation, DistributionStrategy strategy, String name, Path directory,
            int stepsPerCheckpoint) {
        Generator random = Generator.seeded(1);
        try (Scope scope = Scope.open(name);
                Layer model = Linear.of(1, 1, random);
                Optimizer sgd = Sgd.over(model).rate(0.01).build();
                strategy;
                DataLoader data = DataLoader.of(TensorDataset.of(random.normal(BATCH * BATCHES, 1),
                        random.normal(BATCH * BATCHES, 1))).batchSize(BATCH).workers(0).shuffle().build()) {
            Trainer.of(model, Loss.meanSquared(), sgd).data(data).strategy(strategy).epochs(EPOCHS)
                    .checkpoints(directory, stepsPerCheckpoint).keep(Integer.MAX_VALUE)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            Step before = steps.get(name).put(progress.step(), new Step(simulation.now(),
                                    weights(model.parameters())));
                            assertThat(before).as("step %s of %s is taken once", progress.step(), name).isNull();
                            simulation.sleep(PACE);
                        }

                        @Override
                        public void checkpointSaved(Progress progress, Path manifest) {
                            savers.put(Checkpoint.open(manifest).step(), name);
                        }
                    }).build().run();
        }
    }

    private static float[] weights(Map<String, Parameter> parameters) {
        float[] all = new float[parameters.size()];
        int i = 0;
        for (Parameter parameter : parameters.values()) {
            all[i++] = parameter.value().toFloats()[0];
        }
        return all;
    }

    /** Returns the weights in the checkpoints of a directory, by step. */
    private static Map<Long, float[]> saved(Path directory) {
        Map<Long, float[]> saved = new TreeMap<>();
        try (Stream<Path> files = Files.list(directory); Scope scope = Scope.open("saved");
                Layer model = Linear.of(1, 1, Generator.seeded(2))) {
            Map<String, Parameter> named = new TreeMap<>();
            model.state().forEach((path, parameter) -> named.put("model." + path, parameter));
            for (Path manifest : files.filter(file -> file.toString().endsWith(".json")).toList()) {
                Checkpoint checkpoint = Checkpoint.open(manifest);
                checkpoint.into(named, _ -> true);
                saved.put(checkpoint.step(), weights(model.parameters()));
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return saved;
    }

    /** Returns whether a process had these weights after a step. */
    private boolean has(String name, long step, float[] weights) {
        Step taken = steps.get(name).get(step);
        return taken != null && Arrays.equals(taken.weights, weights);
    }

    /** Returns the steps that a process took while it was cut off, but for the time before the others notice that. */
    private List<Long> alone(String name, Duration healed) {
        Duration noticed = CUT.plus(SILENCE.multipliedBy(7).dividedBy(8));
        return steps.get(name).entrySet().stream().filter(step -> step.getValue().at.compareTo(noticed) > 0
                && step.getValue().at.compareTo(healed) < 0).map(Map.Entry::getKey).toList();
    }

    private static DistributionStrategy ring(Group group) {
        return RingAllReduce.over(group).elastic().build();
    }

    private void assertContinuous(String name) {
        Duration last = CUT;
        for (Step step : steps.get(name).tailMap(1L).values()) {
            assertThat(step.at.minus(last)).as(name).isLessThanOrEqualTo(SILENCE.multipliedBy(2).plus(PACE));
            last = step.at.compareTo(CUT) > 0 ? step.at : CUT;
        }
        assertThat(steps.get(name).lastKey()).as(name).isEqualTo(EPOCHS * BATCHES);
    }

    @Test
    void theMinorityOfAnElasticRingEndsAndTheMajorityGoesOn() {
        run(new Quorum.Majority(), LIMIT, false, STEPS_PER_CHECKPOINT, DividedCheckpointsTest::ring);
        assertThat(failures).containsOnlyKeys("rank0");
        assertThat(failures.get("rank0")).isInstanceOf(QuorumLostException.class);
        assertThat(steps.get("rank0").lastEntry().getValue().at).isLessThan(CUT.plus(PACE.multipliedBy(2)));
        assertContinuous("rank1");
        assertContinuous("rank2");
        Map<Long, float[]> saved = saved(top);
        // The one at whose step the network was cut may be missing.
        assertThat(saved).hasSizeGreaterThanOrEqualTo(EPOCHS * BATCHES / STEPS_PER_CHECKPOINT - 1)
                .containsKey((long) EPOCHS * BATCHES);
        saved.forEach((step, weights) -> assertThat(has("rank1", step, weights)).as("step " + step).isTrue());
    }

    @Test
    void aMinorityThatGossipsAloneSavesNothing() {
        Duration cut = Duration.ofMillis(600);
        run(new Quorum.Majority(), cut, false, 1, Gossip::of);
        assertThat(failures).isEmpty();
        List<Long> alone = alone("rank0", CUT.plus(cut));
        assertThat(alone).hasSizeGreaterThan(40);
        Map<Long, float[]> saved = saved(top);
        assertThat(saved).containsKeys(alone.stream().skip(alone.size() / 2).toArray(Long[]::new));
        for (long step : alone) {
            if (saved.containsKey(step)) {
                assertThat(savers.get(step)).as("the process that saved step %s, at %s", step,
                        steps.get("rank0").get(step).at).isEqualTo("rank1");
                assertThat(has("rank0", step, saved.get(step))).as("rank 0's weights of step " + step).isFalse();
            }
        }
    }

    @Test
    void aMinorityThatFinishesAloneSavesNothing() {
        run(new Quorum.Majority(), LIMIT, true, STEPS_PER_CHECKPOINT, Gossip::of);
        assertThat(failures).isEmpty();
        assertThat(steps.get("rank0").lastEntry().getValue().at).isGreaterThan(CUT.plus(SILENCE));
        assertThat(saved(top.resolve("rank0"))).isNotEmpty().doesNotContainKey(steps.get("rank0").lastKey());
        assertThat(saved(top.resolve("rank1"))).containsKey(steps.get("rank1").lastKey());
    }

    /** So the tests above can fail. */
    @Test
    void whereOneMemberIsAQuorumBothSidesSave() {
        run(new Quorum.Members(1), LIMIT, true, STEPS_PER_CHECKPOINT, DividedCheckpointsTest::ring);
        assertThat(failures).isEmpty();
        for (String name : List.of("rank0", "rank1")) {
            assertThat(saved(top.resolve(name))).as(name).containsKey((long) EPOCHS * BATCHES);
        }
    }
}
