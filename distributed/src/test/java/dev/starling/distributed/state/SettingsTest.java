package dev.starling.distributed.state;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.RunEndedException;
import dev.starling.nn.train.SettingsMismatchException;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Settings that differ between ranks are an error on all of them, with every strategy. */
@Timeout(120)
class SettingsTest {
    private enum Kind { RING, ELASTIC_RING, GOSSIP, ASYNCHRONOUS_PS, STALE_PS, SYNCHRONOUS_PS }

    /** A setting in which the last worker differs. */
    private enum Difference {
        NONE(""), RATE("learning rate is 0.1 on X 0 and 1, 0.2 on X 2"),
        SCHEDULE("schedule of the learning rate is constant on X 0 and 1, 0.05 after 64 steps, 0.025 after 128"),
        RULE("optimiser is Sgd["), MOMENTUM("momentum=0.9"), SEED("seed of the data is 7 on X 0 and 1, 8 on X 2"),
        ORDER("order of the data is shuffled on X 0 and 1, that of the data set on X 2"),
        BATCH("batch size is 8 on X 0 and 1, 6 on X 2"), ROWS("rows of data is 32 on X 0 and 1, 28 on X 2"),
        EPOCHS("epochs is 2 on X 0 and 1, 3 on X 2"), ACCUMULATION("batches in a step is 1 on X 0 and 1, 2 on X 2"),
        LOSS("loss is mean squared error on X 0 and 1, Huber loss with delta 1.0 on X 2"),
        LAYERS("model.1 is Relu on X 0 and 1, Function on X 2"),
        DROPOUT("model.2 is Dropout[probability=0.25] on X 0 and 1, Dropout[probability=0.5] on X 2"),
        SHAPES("model.0.weight is f32[5, 3] on X 0 and 1, f32[4, 3] on X 2");

        private final String message;

        Difference(String message) {
            this.message = message;
        }
    }

    @ParameterizedTest
    @EnumSource(Difference.class)
    void ringNamesTheDifference(Difference difference) {
        assertNamed(Kind.RING, difference);
    }

    @ParameterizedTest
    @EnumSource(value = Difference.class, names = {"NONE", "RATE", "SHAPES"})
    void elasticRingNamesTheDifference(Difference difference) {
        assertNamed(Kind.ELASTIC_RING, difference);
    }

    @ParameterizedTest
    @EnumSource(value = Difference.class, names = {"NONE", "RATE", "ORDER", "SHAPES"})
    void gossipNamesTheDifference(Difference difference) {
        assertNamed(Kind.GOSSIP, difference);
    }

    @ParameterizedTest
    @EnumSource(value = Difference.class, names = {"NONE", "RATE", "BATCH", "SHAPES"})
    void asynchronousServersNameTheDifference(Difference difference) {
        assertNamed(Kind.ASYNCHRONOUS_PS, difference);
    }

    @ParameterizedTest
    @EnumSource(value = Difference.class, names = {"NONE", "RATE", "ROWS"})
    void staleServersNameTheDifference(Difference difference) {
        assertNamed(Kind.STALE_PS, difference);
    }

    @ParameterizedTest
    @EnumSource(value = Difference.class, names = {"NONE", "RATE", "RULE", "ORDER", "ROWS", "BATCH", "SHAPES"})
    void synchronousServersNameTheDifference(Difference difference) {
        assertNamed(Kind.SYNCHRONOUS_PS, difference);
    }

    /** Members with different strategies would wait for each other in vain, and some would train alone. */
    @ParameterizedTest
    @CsvSource({"RING, GOSSIP", "GOSSIP, ELASTIC_RING", "ASYNCHRONOUS_PS, GOSSIP", "SYNCHRONOUS_PS, RING"})
    void differentStrategiesAreNamed(Kind kind, Kind ofTheLast) {
        boolean ps = kind.compareTo(Kind.ASYNCHRONOUS_PS) >= 0;
        List<RunEndedException> failures = new Cluster(TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(5)), ps ? 4 : 3, Coordinator.OnLoss.REFORM).servers(ps ? 1 : 0)
                .run(group -> {
                    try (Scope scope = Scope.open("rank")) {
                        if (group.rank() == 3) {
                            ParameterServer.serve(group, ServerConfig.inMemory());
                        } else {
                            train(group, group.rank() == 2 ? ofTheLast : kind, Difference.NONE);
                        }
                        return null;
                    } catch (RunEndedException e) {
                        return e;
                    }
                });
        // A rank that gossips waits for no other, and may have trained to the end before the last one begins.
        assertThat(failures).filteredOn(each -> each != null || kind != Kind.GOSSIP).isNotEmpty()
                .allSatisfy(each -> assertThat(each)
                        .hasMessageContaining("the settings of the ranks differ: strategy is "));
    }

    /** A process may use one strategy after another in a group, although others have yet to begin the next one. */
    @Test
    void strategiesMayFollowEachOther() {
        Cluster.local(3).run(group -> {
            try (Scope scope = Scope.open("rank")) {
                train(group, Kind.RING, Difference.NONE);
                train(group, Kind.GOSSIP, Difference.NONE);
                train(group, Kind.RING, Difference.NONE);
            }
            return null;
        });
    }

    private static void assertNamed(Kind kind, Difference difference) {
        boolean ps = kind.compareTo(Kind.ASYNCHRONOUS_PS) >= 0;
        boolean tolerant = kind != Kind.RING;
        Cluster cluster = new Cluster(TransportConfig.of("local", Secret.random())
                .livenessTimeout(Duration.ofSeconds(5)), ps ? 4 : 3,
                tolerant ? Coordinator.OnLoss.REFORM : Coordinator.OnLoss.END).servers(ps ? 1 : 0);
        List<RunEndedException> failures = cluster.run(group -> {
            try (Scope scope = Scope.open("rank")) {
                if (group.rank() == 3) {
                    ParameterServer.serve(group, ServerConfig.inMemory());
                } else {
                    train(group, kind, group.rank() == 2 ? difference : Difference.NONE);
                }
                return null;
            } catch (RunEndedException e) {
                return e;
            }
        });
        if (difference == Difference.NONE) {
            assertThat(failures).containsOnlyNulls();
            return;
        }
        for (RunEndedException each : failures) {
            assertThat(each).isInstanceOf(SettingsMismatchException.class);
            assertThat(each.getMessage()).as(each.getMessage()).contains("give all");
        }
        // A server compares each worker with the first one, and gossip compares two workers.
        String member = ps ? "worker" : "rank";
        String message = difference.message.replace("X", member + "s").replace(member + "s 2", member + " 2");
        for (RunEndedException each : failures) {
            if (kind == Kind.RING || kind == Kind.ELASTIC_RING) {
                assertThat(each).hasMessageContaining(message);
                assertThat(each.rank()).isEqualTo(2);
            } else {
                assertThat(((SettingsMismatchException) each).setting()).isEqualTo(message.split(" is ")[0]);
                assertThat(each.getMessage()).contains(member + " 2");
            }
        }
    }

    private static void train(Membership group, Kind kind, Difference difference) {
        int rows = difference == Difference.ROWS ? 28 : 32;
        Generator random = Generator.seeded(3);
        DataLoader.Builder data = DataLoader.of(TensorDataset.of(random.normal(rows, 3),
                random.normal(rows, 2))).batchSize(difference == Difference.BATCH ? 6 : 8)
                .seed(difference == Difference.SEED ? 8 : 7);
        int hidden = difference == Difference.SHAPES ? 4 : 5;
        Layer model = Sequential.of(Linear.of(3, hidden, random),
                difference == Difference.LAYERS ? Tensor::tanh : new Relu(),
                new Dropout(difference == Difference.DROPOUT ? 0.5 : 0.25), Linear.of(hidden, 2, random));
        Optimizer optimizer = switch (difference) {
            case RATE -> Sgd.over(model).rate(0.2).build();
            case SCHEDULE -> Sgd.over(model).rate(Schedule.decay(0.1, 50, 0.5)).build();
            case MOMENTUM -> Sgd.over(model).rate(0.1).momentum(0.9).build();
            case RULE -> Adam.over(model).rate(0.1).build();
            default -> Sgd.over(model).rate(0.1).build();
        };
        try (DataLoader loader = (difference == Difference.ORDER ? data : data.shuffle()).build();
                DistributionStrategy strategy = strategy(group, kind)) {
            Trainer.of(model, difference == Difference.LOSS ? Loss.huber(1) : Loss.meanSquared(), optimizer)
                    .data(loader).epochs(difference == Difference.EPOCHS ? 3 : 2)
                    .accumulate(difference == Difference.ACCUMULATION ? 2 : 1).strategy(strategy).build().run();
        }
    }

    private static DistributionStrategy strategy(Membership group, Kind kind) {
        return switch (kind) {
            case RING -> RingAllReduce.over(group).build();
            case ELASTIC_RING -> RingAllReduce.over(group).elastic().build();
            case GOSSIP -> Gossip.of(group);
            case ASYNCHRONOUS_PS, STALE_PS, SYNCHRONOUS_PS -> ParameterServer.worker(group, group.rank()).workers(3)
                    .consistency(kind == Kind.SYNCHRONOUS_PS ? new Consistency.Synchronous()
                            : kind == Kind.STALE_PS ? new Consistency.Stale(2) : new Consistency.Asynchronous())
                    .build();
        };
    }
}
