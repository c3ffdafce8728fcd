package dev.starling.distributed.state;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
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
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.TensorException;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntUnaryOperator;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Ranks that each have rows of their own, however unequal their numbers are. */
@Timeout(120)
class OwnDataTest {
    private static final int BATCH = 16;
    private static final int EPOCHS = 4;
    private static final float ROUNDING = 2e-5f;

    private enum Kind {
        RING, SYNCHRONOUS_PS, ASYNCHRONOUS_PS, GOSSIP;

        int servers() {
            return this == SYNCHRONOUS_PS || this == ASYNCHRONOUS_PS ? 1 : 0;
        }
    }

    /** Row i of a rank is a row of the global data set; counts how often each was read. */
    private record Rows(int size, IntUnaryOperator row, Map<Integer, Integer> reads) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 3), Field.of(DType.F32, 1));
        }

        @Override
        public void write(int index, Example target) {
            int i = row.applyAsInt(index);
            reads.merge(i, 1, Integer::sum);
            float[] x = {(i * 37 % 101) / 100f, (i * 53 % 97) / 96f, (i * 11 % 89) / 88f};
            target.put(0, x);
            target.put(1, new float[] {2 * x[0] - x[1] + 0.5f * x[2] + 0.25f});
        }
    }

    private record Outcome(float[] weights, History history, long steps) { }

    private static Outcome train(DistributionStrategy strategy, Dataset rows, boolean shuffled,
            TrainingListener... listeners) {
        DataLoader.Builder loading = DataLoader.of(rows).batchSize(BATCH).seed(3);
        try (Layer net = Linear.of(3, 1, Generator.seeded(5 + strategy.rank()));
                Optimizer sgd = Sgd.over(net).rate(0.1).momentum(0.5).build();
                DataLoader data = (shuffled ? loading.shuffle() : loading).build(); strategy) {
            History history = Trainer.of(net, Loss.meanSquared(), sgd).data(data).epochs(EPOCHS).seed(9)
                    .strategy(strategy).listeners(listeners).build().run();
            return new Outcome(net.parameters().values().iterator().next().value().toFloats(), history,
                    history.last().step());
        }
    }

    private static DistributionStrategy strategy(Kind kind, Group group, int workers) {
        return switch (kind) {
            case RING -> RingAllReduce.over(group).ownData().build();
            case SYNCHRONOUS_PS -> ParameterServer.worker(group, group.rank()).workers(workers).ownData()
                    .consistency(new Consistency.Synchronous()).build();
            case ASYNCHRONOUS_PS -> ParameterServer.worker(group, group.rank()).workers(workers).ownData().build();
            case GOSSIP -> Gossip.onOwnData(group, 2, 1);
        };
    }

    /**
     * Trains workers with given numbers of rows; by default row i of rank r is row r·10⁶ + i of the global data set.
     */
    private static List<Outcome> train(Kind kind, boolean shuffled, Map<Integer, Integer> reads, int... sizes) {
        Cluster cluster = kind == Kind.GOSSIP ? new Cluster(TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(10)), sizes.length, Coordinator.OnLoss.REFORM)
                : Cluster.local(sizes.length + kind.servers());
        return cluster.servers(kind.servers()).run(group -> {
            int rank = group.rank();
            if (rank >= sizes.length) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return train(strategy(kind, group, sizes.length),
                    new Rows(sizes[rank], i -> rank * 1_000_000 + i, reads), shuffled);
        }).subList(0, sizes.length);
    }

    @ParameterizedTest
    @EnumSource(names = {"RING", "SYNCHRONOUS_PS"})
    void aRunIsThatOfOneProcessOnTheSameBatches(Kind kind) {
        // Of each batch of 16, the first rank has 2 rows and the second one 14.
        int[] sizes = {20, 140};
        List<Outcome> both = train(kind, false, new ConcurrentHashMap<>(), sizes);
        Outcome alone = train(new SingleProcess(), new Rows(160,
                i -> i % BATCH < 2 ? i / BATCH * 2 + i % BATCH : 1_000_000 + i / BATCH * 14 + i % BATCH - 2,
                new ConcurrentHashMap<>()), false);
        assertThat(both.get(0).weights).containsExactly(alone.weights, within(ROUNDING)).isEqualTo(both.get(1).weights);
        for (int e = 0; e < EPOCHS; e++) {
            EpochReport own = both.get(0).history.epochs().get(e);
            EpochReport expected = alone.history.epochs().get(e);
            assertThat(own.training().loss()).isCloseTo(expected.training().loss(), within(1e-5));
            assertThat(own.training().examples()).isEqualTo(160);
        }
    }

    @ParameterizedTest
    @EnumSource
    void anEpochTakesEachRowOnce(Kind kind) {
        Map<Integer, Integer> reads = new ConcurrentHashMap<>();
        int[] sizes = {13, 0, 91};
        List<Outcome> all = train(kind, true, reads, sizes);
        for (int r = 0; r < sizes.length; r++) {
            int rank = r;
            assertThat(IntStream.range(0, sizes[r]).map(i -> reads.get(rank * 1_000_000 + i))
                    .allMatch(count -> count == EPOCHS)).isTrue();
        }
        assertThat(reads).hasSize(13 + 91);
        boolean together = kind == Kind.RING || kind == Kind.SYNCHRONOUS_PS;
        for (int r = 0; r < sizes.length; r++) {
            int rows = together ? 13 + 91 : sizes[r];
            assertThat(all.get(r).steps).isEqualTo(EPOCHS * Math.ceilDiv(rows, BATCH));
        }
        List<EpochReport> epochs = all.get(2).history.epochs();
        assertThat(epochs.getLast().training().loss()).isLessThan(epochs.getFirst().training().loss() / 2);
        if (together) {
            assertThat(all.get(1).weights).isEqualTo(all.get(0).weights).isEqualTo(all.get(2).weights);
            assertThat(all.get(1).history.last().training().loss()).isLessThan(0.1)
                    .isEqualTo(all.get(0).history.last().training().loss());
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"RING", "SYNCHRONOUS_PS"})
    void noRowAtAllIsAnErrorOnAllRanks(Kind kind) {
        assertThatThrownBy(() -> train(kind, false, new ConcurrentHashMap<>(), 0, 0))
                .isInstanceOf(DistributedException.class).hasMessageContaining("none of 2 ranks has a row to train on");
    }

    @Test
    void workersRefuseToMixOwnAndSharedRows() {
        List<String> messages = Cluster.local(3).servers(1).run(group -> {
            try {
                if (group.rank() == 2) {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                    return null;
                }
                ParameterServer.Builder how = ParameterServer.worker(group, group.rank()).workers(2)
                        .consistency(new Consistency.Synchronous());
                train((group.rank() == 0 ? how.ownData() : how).build(), new Rows(32, i -> i,
                        new ConcurrentHashMap<>()), false);
                return null;
            } catch (SettingsMismatchException e) {
                return e.getMessage();
            }
        });
        assertThat(messages).hasSize(3).allMatch(message -> message != null
                && message.contains("ownData() is true on worker 0, false on worker 1"));
    }

    @Test
    void ownRowsAreNotDividedBySpeed() {
        Cluster.local(1).run(group -> {
            assertThatThrownBy(() -> RingAllReduce.over(group).ownData().proportional().build())
                    .isInstanceOf(TensorException.class).hasMessageContaining("leave one of them out");
            assertThatThrownBy(() -> ParameterServer.worker(group, 0).workers(1).ownData().proportional()
                    .consistency(new Consistency.Synchronous()).build())
                    .isInstanceOf(TensorException.class).hasMessageContaining("leave one of them out");
            return null;
        });
    }

    /** Rank 1 leaves during the second epoch; the others continue with all of their own rows. */
    @ParameterizedTest
    @ValueSource(ints = {5, 8})
    void afterALossTheOtherRanksContinueWithTheirRows(int lastStep) {
        TransportConfig local = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(10));
        Map<Integer, Integer> reads = new ConcurrentHashMap<>();
        List<Outcome> all = new Cluster(local, 3, Coordinator.OnLoss.REFORM).run(group -> {
            int rank = group.rank();
            List<TrainingListener> listeners = new ArrayList<>();
            if (rank == 1) {
                listeners.add(new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        if (progress.step() == lastStep) {
                            group.locked(() -> group.transport().close());
                            throw new IllegalStateException("killed");
                        }
                    }
                });
            }
            try {
                return train(RingAllReduce.over(group).ownData().elastic().build(),
                        new Rows(20 + 20 * rank, i -> rank * 1_000_000 + i, reads), true,
                        listeners.toArray(TrainingListener[]::new));
            } catch (IllegalStateException e) {
                return null;
            }
        });
        assertThat(all.get(1)).isNull();
        assertThat(all.get(0).weights).isEqualTo(all.get(2).weights);
        assertThat(all.get(0).history.last().training().loss()).isLessThan(0.1);
        // Epochs that began after the loss consist of the rows of the other two.
        assertThat(all.get(0).history.last().training().examples()).isEqualTo(20 + 60);
    }
}
