package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.ps.CornerImages.Outcome;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.server.ServerDriver;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.optim.Adafactor;
import dev.starling.nn.optim.Lamb;
import dev.starling.nn.optim.Muon;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.TensorRule;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;

/** Servers that apply rules which need a parameter as a whole. The oracle is training in one process. */
@Timeout(60)
class WholeRulesTest {
    private static final Consistency SYNCHRONOUS = new Consistency.Synchronous();
    /** Rounding of gradients that two workers have summed: Newton-Schulz iterations amplify it. */
    private static final float ROUNDING = 2e-4f;

    @TempDir
    Path checkpoints;

    enum Rule {
        LAMB, ADAFACTOR, MUON;

        Optimizer over(Layer model) {
            return switch (this) {
                case LAMB -> Lamb.over(model).rate(0.01).withoutDecay(path -> path.endsWith("bias")).build();
                case ADAFACTOR -> Adafactor.over(model).rate(0.01).weightDecay(0.01).build();
                case MUON -> Muon.over(model).rate(0.005).build();
            };
        }
    }

    /** Multiplies by a parameter without dimensions. */
    private record Gain(Parameter gain) implements Layer {
        @Override
        public Tensor forward(Tensor input) {
            return input.mul(gain.value());
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.parameter("gain", gain);
        }
    }

    /** Parameters of 0, 1, 2 and 4 dimensions; one takes two blocks. */
    private static Layer network(Generator g) {
        return Sequential.of(Conv2d.of(1, 4, 3).padding(1).build(g), new Relu(), new Flatten(), Linear.of(144, 120, g),
                new Gain(Parameter.of(Tensor.scalar(1.5f))), new Relu(), Linear.of(120, 4, g));
    }

    private static List<Outcome> train(Rule rule, int workers, int servers, Consistency consistency, int epochs,
            Consumer<Trainer.Builder> more) {
        return Cluster.local(workers + servers).servers(servers).run(group -> {
            if (group.rank() >= workers) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return CornerImages.train(WholeRulesTest::network, rule::over, epochs, ParameterServer.worker(group,
                    group.rank()).workers(workers).servers(servers).consistency(consistency).build(), more);
        }).stream().filter(Objects::nonNull).toList();
    }

    private static Outcome alone(Rule rule, int epochs, Consumer<Trainer.Builder> more) {
        return CornerImages.train(WholeRulesTest::network, rule::over, epochs, new SingleProcess(), more);
    }

    private static void assertEquals(Outcome outcome, Outcome expected, float tolerance) {
        expected.weights().forEach((path, t) -> assertThat(outcome.weights().get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }

    @ParameterizedTest
    @CsvSource({"LAMB, 1", "LAMB, 2", "ADAFACTOR, 2", "MUON, 2"})
    void synchronousWorkersTrainLikeOneProcess(Rule rule, int servers) {
        Outcome expected = alone(rule, 1, b -> { });
        List<Outcome> all = train(rule, 2, servers, SYNCHRONOUS, 1, b -> { });
        assertThat(all).hasSize(2);
        assertEquals(all.getFirst(), expected, ROUNDING);
        assertEquals(all.getLast(), all.getFirst(), 0);
    }

    @ParameterizedTest
    @EnumSource
    void resumesWithTheSameBits(Rule rule) {
        Outcome whole = train(rule, 2, 2, SYNCHRONOUS, 2, b -> { }).getFirst();
        train(rule, 2, 2, SYNCHRONOUS, 1, b -> b.checkpoints(checkpoints));
        Outcome resumed = train(rule, 2, 1, SYNCHRONOUS, 2, b -> b.checkpoints(checkpoints).resume()).getLast();
        assertThat(resumed.history().epochs()).hasSize(1);
        assertEquals(resumed, whole, 0);
    }

    /** One worker has the bits of one process, whose optimiser continues with the servers' state. */
    @ParameterizedTest
    @EnumSource
    void oneProcessContinuesWithTheStateOfServers(Rule rule) {
        Outcome whole = alone(rule, 2, b -> { });
        train(rule, 1, 2, new Consistency.Asynchronous(), 1, b -> b.checkpoints(checkpoints));
        assertEquals(alone(rule, 2, b -> b.checkpoints(checkpoints).resume()), whole, 0);
    }

    @ParameterizedTest
    @CsvSource({"LAMB, -1", "MUON, 2"})
    void asynchronousAndStaleWorkersLearn(Rule rule, int bound) {
        Consistency consistency = bound < 0 ? new Consistency.Asynchronous() : new Consistency.Stale(bound);
        assertThat(train(rule, 2, 2, consistency, 5, b -> { }).getFirst().accuracy()).isGreaterThan(0.8);
    }

    @Test
    void triesEveryRule() {
        Set<String> tried = new TreeSet<>();
        for (Rule each : Rule.values()) {
            try (Layer model = network(Generator.seeded(1)); Optimizer optimizer = each.over(model)) {
                for (int i = 0; i < optimizer.parameters().size(); i++) {
                    tried.add(Objects.requireNonNull(optimizer.wholeRule(i)).direction().getClass().getSimpleName());
                }
            }
        }
        assertThat(tried).isEqualTo(Stream.of(TensorRule.class.getPermittedSubclasses()).map(Class::getSimpleName)
                .collect(Collectors.toCollection(TreeSet::new)));
    }

    @Test
    void tablesNeedRulesOfElements() {
        try (Layer model = network(Generator.seeded(1)); Optimizer lamb = Rule.LAMB.over(model);
                EmbeddingTable table = EmbeddingTable.of("users", 10, 4).build()) {
            TrainingState state = TrainingState.of(model, lamb);
            assertThatThrownBy(() -> Rules.ofTables(state, null, List.of(table), 1))
                    .isInstanceOf(DistributedException.class).hasMessageContaining("EmbeddingTable")
                    .hasMessageContaining("such as Sgd or AdamW");
            try (EmbeddingTable own = EmbeddingTable.of("items", 10, 4).optimizer(ServerDriver.PLAIN).build()) {
                assertThat(Rules.ofTables(state, null, List.of(own), 1).getFirst().rule())
                        .isEqualTo(ServerDriver.PLAIN);
            }
        }
    }
}
