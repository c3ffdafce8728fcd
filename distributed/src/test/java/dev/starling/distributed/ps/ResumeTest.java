package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.ps.CornerImages.Outcome;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.Layer;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Rule;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.Function;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Runs that resume from a checkpoint, in another cluster, equal uninterrupted runs. */
@Timeout(120)
class ResumeTest {
    private static final int FIRST = 4;
    private static final int ALL = 9;
    private static final Consistency SYNCHRONOUS = new Consistency.Synchronous();

    @TempDir
    Path directory;
    private Path checkpoints;

    @BeforeEach
    void name() {
        checkpoints = directory.resolve("checkpoints");
    }

    private static Optimizer momentum(Layer model) {
        return Sgd.over(model).rate(Schedule.constant(0.05).warmUp(60)).momentum(0.9).weightDecay(1e-3).build();
    }

    private static Optimizer adam(Layer model) {
        return Adam.over(model).rate(Schedule.constant(0.002).warmUp(60)).build();
    }

    private static List<Outcome> train(int workers, int servers, Consistency consistency, ServerConfig config,
            Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, int epochs,
            Consumer<Trainer.Builder> more) {
        return train(workers, servers, consistency, config, network, optimizer, null, epochs, more);
    }

    private static List<Outcome> train(int workers, int servers, Consistency consistency, ServerConfig config,
            Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, Rule rule, int epochs,
            Consumer<Trainer.Builder> more) {
        return Cluster.local(workers + servers).servers(servers).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, config);
                return null;
            }
            return CornerImages.train(network, optimizer, epochs, ParameterServer.worker(group, group.rank())
                    .workers(workers).servers(servers).consistency(consistency).optimizer(rule).build(), more);
        }).stream().filter(Objects::nonNull).toList();
    }

    private void saving(Trainer.Builder builder) {
        builder.checkpoints(checkpoints);
    }

    private void resuming(Trainer.Builder builder) {
        builder.checkpoints(checkpoints).resume();
    }

    private static void assertEquals(Outcome outcome, Outcome expected, float tolerance) {
        assertThat(outcome.history().last().step()).isEqualTo(expected.history().last().step());
        expected.weights().forEach((path, t) -> assertThat(outcome.weights().get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    @Test
    void resumesBitForBitInTheSameCluster() {
        Function<Layer, Optimizer> optimizer = ResumeTest::adam;
        Outcome whole = train(2, 2, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::normed, optimizer, ALL,
                b -> { })
                .getFirst();
        train(2, 2, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::normed, optimizer, FIRST, this::saving);
        List<Outcome> resumed = train(2, 2, SYNCHRONOUS, ServerConfig.in(directory.resolve("servers")),
                CornerImages::normed,
                optimizer, ALL, this::resuming);
        for (Outcome each : resumed) {
            assertEquals(each, whole, 0);
        }
        // The checkpoint of the second cluster contains the state of its servers' rules, too.
        Outcome more = train(2, 2, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::normed, optimizer, ALL + 2,
                this::resuming).getFirst();
        Outcome longer = train(2, 2, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::normed, optimizer, ALL + 2,
                b -> { })
                .getFirst();
        assertEquals(more, longer, 0);
    }

    @ParameterizedTest
    @CsvSource({"2, 1, 3, 2", "2, 2, 1, 1", "1, 1, 2, 3", "2, 1, 0, 0", "0, 0, 2, 2"})
    void resumesInAnotherClusterUpToRounding(int workers, int servers, int workersNext, int serversNext) {
        Function<Layer, Optimizer> optimizer = ResumeTest::momentum;
        Outcome whole = CornerImages.train(CornerImages::perceptron, optimizer, ALL, new SingleProcess(), b -> { });
        run(workers, servers, optimizer, FIRST, this::saving);
        assertEquals(run(workersNext, serversNext, optimizer, ALL, this::resuming), whole, 5e-5f);
    }

    /** Runs on a number of workers and servers, or in one process if there are no workers. */
    private static Outcome run(int workers, int servers, Function<Layer, Optimizer> optimizer, int epochs,
            Consumer<Trainer.Builder> more) {
        return workers == 0 ? CornerImages.train(CornerImages::perceptron, optimizer, epochs, new SingleProcess(), more)
                : train(workers, servers, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::perceptron, optimizer,
                epochs,
                more).getLast();
    }

    @ParameterizedTest
    @CsvSource({"2, 2", "2, 1", "1, 3"})
    void resumesTheStateOfAServersOwnRule(int servers, int serversNext) {
        Outcome whole = adagrad(servers, ALL, b -> { });
        adagrad(servers, FIRST, this::saving);
        assertEquals(adagrad(serversNext, ALL, this::resuming), whole, 0);
        // A run that does not use the state of the rule can resume, too.
        assertThat(CornerImages.train(CornerImages::perceptron, ResumeTest::plain, ALL + 1, new SingleProcess(),
                this::resuming)
                .history().epochs()).hasSize(1);
    }

    private static Outcome adagrad(int servers, int epochs, Consumer<Trainer.Builder> more) {
        return own(new Rule.Adagrad(1e-8, 0, 0), servers, epochs, more);
    }

    private static Outcome own(Rule rule, int servers, int epochs, Consumer<Trainer.Builder> more) {
        return train(2, servers, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::plain,
                rule, epochs, more).getLast();
    }

    /** RMSprop with momentum and centred RMSprop have two slots each, of which the second has another meaning. */
    @Test
    void resumesTheStateOfTheSameVariantOfARule() {
        Rule momentum = new Rule.Rmsprop(0.9, 1, 0, 0.5, false);
        Rule centred = new Rule.Rmsprop(0.9, 1, 0, 0, true);
        Outcome whole = own(momentum, 1, ALL, b -> { });
        own(momentum, 1, FIRST, this::saving);
        assertEquals(own(momentum, 2, ALL, this::resuming), whole, 0);
        assertThat(Rules.key(momentum, 1)).isNotEqualTo(Rules.key(centred, 1));
        // Names of other state are those of earlier checkpoints.
        assertThat(Rules.key(new Rule.Adagrad(1e-8, 0, 0), 0)).isEqualTo("Adagrad0");
        assertThat(Rules.key(new Rule.Rmsprop(0.9, 1, 0, 0.5, true), 2)).isEqualTo("Rmsprop2");
    }

    /** Adam counts the steps of each parameter by itself. */
    @Test
    void resumesTheStepsOfAParameterThatWasUnfrozenLate() {
        Outcome whole = unfreezing(ALL, b -> { });
        unfreezing(FIRST, this::saving);
        assertEquals(unfreezing(ALL, this::resuming), whole, 0);
    }

    /** Trains a network whose first layer is frozen in the first two epochs. */
    private static Outcome unfreezing(int epochs, Consumer<Trainer.Builder> more) {
        return Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            Layer[] made = new Layer[1];
            TrainingListener unfreezes = new TrainingListener() {
                @Override
                public void epochStarted(Progress progress) {
                    if (progress.epoch() >= 2) {
                        made[0].unfreeze(path -> true);
                    }
                }
            };
            Function<Generator, Layer> network = g -> {
                made[0] = CornerImages.perceptron(g).freeze(path -> path.startsWith("1."));
                return made[0];
            };
            return CornerImages.train(network, ResumeTest::adam, epochs, ParameterServer.worker(group, group.rank())
                    .workers(2).consistency(SYNCHRONOUS).build(), b -> more.accept(b.listeners(unfreezes)));
        }).getFirst();
    }

    /** A network of which one layer takes part in every second step. */
    private static final class Alternating implements Layer {
        private final Layer always;
        private final Layer sometimes;
        private long step;

        Alternating(Generator g) {
            always = CornerImages.perceptron(g);
            sometimes = CornerImages.perceptron(g);
        }

        @Override
        public Tensor forward(Tensor x) {
            Tensor y = always.forward(x);
            return step % 2 == 0 ? y : y.add(sometimes.forward(x));
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("always", always);
            visitor.layer("sometimes", sometimes);
        }
    }

    /** Servers take no step on a parameter without a gradient. */
    @Test
    void resumesTheStepsOfAParameterOnWhichTheLossDependsSometimes() {
        Outcome whole = alternating(ALL, b -> { });
        alternating(FIRST, this::saving);
        assertEquals(alternating(ALL, this::resuming), whole, 0);
    }

    private static Outcome alternating(int epochs, Consumer<Trainer.Builder> more) {
        return Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            Alternating[] made = new Alternating[1];
            TrainingListener follows = new TrainingListener() {
                @Override
                public void started(Progress progress) {
                    made[0].step = progress.step();
                }

                @Override
                public void stepEnded(Progress progress) {
                    made[0].step = progress.step();
                }
            };
            Function<Generator, Layer> network = g -> {
                made[0] = new Alternating(g);
                return made[0];
            };
            return CornerImages.train(network, ResumeTest::adam, epochs, ParameterServer.worker(group, group.rank())
                    .workers(2).consistency(SYNCHRONOUS).build(), b -> more.accept(b.listeners(follows)));
        }).getFirst();
    }

    private static Optimizer plain(Layer model) {
        return Sgd.over(model).rate(0.02).build();
    }

    @Test
    void warnsOfServersThatIgnoreTheCheckpoint() {
        ServerConfig kept = ServerConfig.in(directory.resolve("servers"));
        Function<Layer, Optimizer> optimizer = ResumeTest::adam;
        assertThat(warnings(() -> train(1, 2, SYNCHRONOUS, kept, CornerImages::perceptron, optimizer, FIRST,
                this::saving)))
                .isEmpty();
        assertThat(warnings(() -> train(1, 2, SYNCHRONOUS, ServerConfig.inMemory(), CornerImages::perceptron, optimizer,
                FIRST + 1, this::resuming))).isEmpty();
        assertThat(warnings(() -> train(1, 2, SYNCHRONOUS, kept, CornerImages::perceptron, optimizer, FIRST + 2,
                this::resuming))).hasSize(2)
                .allMatch(text -> text.contains("continues with the weights in its own directory"));
    }

    /** Returns the warnings of worker 0. */
    private static List<String> warnings(Runnable action) {
        return Warnings.of(ParameterServer.class, action);
    }

    @Test
    void oneAsynchronousWorkerResumesBitForBit() {
        Consistency alone = new Consistency.Asynchronous();
        Outcome whole = train(1, 2, alone, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::adam, ALL,
                b -> { }).getFirst();
        train(1, 2, alone, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::adam, FIRST, this::saving);
        assertEquals(train(1, 1, alone, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::adam, ALL,
                this::resuming).getFirst(), whole, 0);
    }

    @Test
    void asynchronousWorkersResumeFromTheCheckpoint() {
        Consistency stale = new Consistency.Stale(2);
        train(2, 2, stale, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::adam, FIRST, this::saving);
        List<Outcome> all = train(2, 2, stale, ServerConfig.inMemory(), CornerImages::perceptron, ResumeTest::adam, ALL,
                this::resuming);
        for (Outcome each : all) {
            // The history starts again, but no worker starts from the first epoch.
            assertThat(each.history().epochs()).hasSizeBetween(1, ALL - FIRST);
        }
        assertThat(all.getFirst().accuracy()).isGreaterThan(0.8);
    }
}
