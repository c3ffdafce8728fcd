package dev.starling.kafka;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Group;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.kafka.broker.EmbeddedBroker;
import dev.starling.nn.Layer;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.extension.ExtendWith;

/** A site of two workers that train by ring, and a site of one worker; they share only a broker. */
@ExtendWith(Broker.class)
@Timeout(120)
class SiteOfProcessesTest {
    private static final int MIN_MIXED = 30;
    private static final float TOLERANCE = 0.05f;
    private static final float[] TRUTH = {3, -2};

    /** Rows in which one of two numbers is 0, so that a site learns one of two weights only. */
    private record OneColumn(int column) implements Dataset {
        @Override
        public int size() {
            return 64;
        }

        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 2), Field.of(DType.F32, 1));
        }

        @Override
        public void write(int index, Example target) {
            float[] row = new float[2];
            row[column] = (index * 37 % 64) / 32f - 1;
            target.put(0, row);
            target.put(1, new float[] {TRUTH[column] * row[column]});
        }
    }

    /** Sites whose weights are near the truth after they have mixed in {@link #MIN_MIXED} updates. */
    private final Set<String> converged = ConcurrentHashMap.newKeySet();
    private final long end = System.nanoTime() + Duration.ofSeconds(40).toNanos();

    private static boolean isNear(float[] weights) {
        return Math.abs(weights[0] - TRUTH[0]) < TOLERANCE && Math.abs(weights[1] - TRUTH[1]) < TOLERANCE;
    }

    /** Trains until both sites have converged or the deadline passes; returns the weights. */
    private float[] train(String site, KafkaGossip gossip, int column, int seed) {
        try (gossip; Layer model = Linear.of(2, 1, Generator.seeded(seed));
                Optimizer optimizer = Sgd.over(model).rate(0.1).build();
                DataLoader data = DataLoader.of(new OneColumn(column)).batchSize(16).seed(3).shuffle().build()) {
            TrainingListener enough = new TrainingListener() {
                @Override
                public void stepEnded(Progress progress) {
                    if (gossip.mixed() >= MIN_MIXED && isNear(weights(model))) {
                        converged.add(site);
                    }
                    if (converged.size() == 2 || System.nanoTime() > end) {
                        progress.stop();
                    }
                }
            };
            Trainer.of(model, Loss.meanSquared(), optimizer).data(data).epochs(1_000_000).strategy(gossip)
                    .listeners(enough).build().run();
            return weights(model);
        }
    }

    private static float[] weights(Layer model) {
        return model.state().get("weight").master().toFloats();
    }

    private static <T> FutureTask<T> start(String name, Callable<T> body) {
        FutureTask<T> task = new FutureTask<>(body);
        Thread.ofPlatform().daemon().name(name).start(task);
        return task;
    }

    @Test
    void convergesWithASiteThatTrainsByRing(EmbeddedBroker broker) throws Exception {
        KafkaCluster cluster = Broker.cluster(broker);
        String topic = Broker.topic(broker, "weights", 1);
        TransportConfig transport = TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(10));
        List<FutureTask<float[]>> ranks = new ArrayList<>();
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(transport, 2,
                Coordinator.OnLoss.END, 1, Duration.ofSeconds(30)))) {
            for (int rank = 0; rank < 2; rank++) {
                GroupConfig config = GroupConfig.of(transport, coordinator.address()).preferredRank(rank)
                        .timeout(Duration.ofSeconds(20));
                // Each rank starts with different weights.
                int seed = 5 + rank;
                ranks.add(start("rank-" + rank, () -> {
                    try (Group group = Group.join(config)) {
                        DistributionStrategy ring = RingAllReduce.over(group).build();
                        return train("ring", KafkaGossip.of(cluster, topic, "ring").period(4).around(ring).build(), 0,
                                seed);
                    }
                }));
            }
            FutureTask<float[]> alone = start("alone", () -> train("alone", KafkaGossip.of(cluster, topic, "alone")
                    .period(4).build(), 1, 9));
            float[] weights = ranks.getFirst().get(60, TimeUnit.SECONDS);
            assertThat(ranks.getLast().get(60, TimeUnit.SECONDS)).as("rank 1, bit for bit").isEqualTo(weights);
            alone.get(60, TimeUnit.SECONDS);
        }
        assertThat(converged).as("sites near " + Arrays.toString(TRUTH)).containsExactlyInAnyOrder("ring", "alone");
    }
}
