package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.gossip.Gossip;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.Model;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Metrics;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * A model with two inputs, two results and a loss for each, trained by several processes; a ring is one of those in
 * {@link RecipesTest}.
 */
@Timeout(60)
class SeveralInputsTest {
    private static final int ROWS = 90;
    private static final int EPOCHS = 3;

    private record Input(Tensor ids, Tensor numbers) { }

    private record Output(Tensor price, Tensor kind) { }

    private record House(Embedding towns, Linear trunk, Linear price, Linear kind) implements Model<Input, Output> {
        static House of(long seed) {
            Generator g = Generator.seeded(seed);
            return new House(Embedding.of(5, 3, g), Linear.of(5, 8, g), Linear.of(8, 1, g), Linear.of(8, 3, g));
        }

        @Override
        public Output forward(Input in) {
            Tensor x = trunk.apply(Tensor.concat(1, towns.apply(in.ids()), in.numbers())).tanh();
            return new Output(price.apply(x).squeeze(-1), kind.apply(x));
        }
    }

    private static TensorDataset houses() {
        Generator g = Generator.seeded(3);
        Tensor ids = g.integers(0, 5, ROWS);
        Tensor numbers = g.normal(ROWS, 2);
        return TensorDataset.of(new Input(ids, numbers), new Output(numbers.sum(1).add(ids.to(DType.F32).mul(0.3)),
                ids.gt(1).to(DType.I64).add(ids.gt(3).to(DType.I64))));
    }

    private static History train(DistributionStrategy strategy) {
        Objective objective = Objective.of("price", Loss.meanSquared()).and("kind", Loss.crossEntropy(), 0.5);
        // Ranks start with different weights.
        try (Scope scope = Scope.open("test"); House model = House.of(5 + strategy.rank());
                Optimizer adam = Adam.over(model).rate(0.02).build();
                DataLoader data = DataLoader.of(houses()).batchSize(16).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(houses()).batchSize(50).build(); strategy) {
            return Trainer.of(model, objective, adam).data(data).heldOut(test).epochs(EPOCHS)
                    .metrics(Metric.accuracy().on("kind"), Metrics.f1(3).on("kind"), Metrics.meanIou(3).on("kind"),
                            Metrics.perplexity().on("kind"), Metrics.rSquared().on("price")).strategy(strategy)
                    .build().run();
        }
    }

    private static void assertSame(History history, History expected) {
        assertThat(history.epochs()).hasSize(EPOCHS);
        for (int i = 0; i < EPOCHS; i++) {
            EpochReport a = history.epochs().get(i);
            EpochReport b = expected.epochs().get(i);
            assertThat(a.training().loss()).isCloseTo(b.training().loss(), within(1e-4));
            assertThat(a.training().metrics()).containsOnlyKeys("price loss", "kind loss", "kind accuracy",
                    "kind F1", "kind mean IoU", "kind perplexity", "price R²");
            b.training().metrics().forEach((name, value) -> assertThat(a.training().metric(name)).as(name)
                    .isCloseTo(value, within(1e-4)));
            b.heldOut().orElseThrow().metrics().forEach((name, value) -> assertThat(a.heldOut().orElseThrow()
                    .metric(name)).as(name).isCloseTo(value, within(1e-4)));
        }
    }

    @Test
    void synchronousWorkersOfAServerHaveTheLossesOfOneProcess() {
        History alone = train(new SingleProcess());
        assertThat(alone.last().training().loss()).isLessThan(0.7 * alone.epochs().getFirst().training().loss());
        List<History> both = Cluster.local(3).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            return train(ParameterServer.worker(group, group.rank()).workers(2).servers(1)
                    .consistency(new Consistency.Synchronous()).build());
        }).stream().filter(Objects::nonNull).toList();
        both.forEach(each -> assertSame(each, alone));
    }

    @Test
    void workersOfGossipLearn() {
        List<History> both = Cluster.local(2).run(group -> train(Gossip.of(group)));
        both.forEach(each -> assertThat(each.last().training().metric("price loss"))
                .isLessThan(each.epochs().getFirst().training().metric("price loss")));
    }
}
