package dev.starling.distributed;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.distributed.ring.RingAllReduce;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Table;
import dev.starling.nn.data.WeightedDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.preprocess.TableEncoder;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.EpochReport;
import dev.starling.nn.train.History;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A model of a table, whose preprocessing is part of its state, and rows drawn at random, with several processes. */
@Timeout(60)
class TablesTest {
    private static final int ROWS = 90;
    private static final int EPOCHS = 3;

    private record House(double area, @Nullable Double age, @Nullable String town, double price) { }

    private static Table houses() {
        Random random = new Random(1);
        return Table.of(House.class, IntStream.range(0, ROWS).mapToObj(i -> {
            double area = 1 + random.nextDouble();
            int town = random.nextInt(3);
            return new House(area, i % 9 == 0 ? null : 30 * random.nextDouble(), i % 7 == 0 ? null : "town " + town,
                    area * (1 + town));
        }).toList());
    }

    private static History train(DistributionStrategy strategy, boolean captured) {
        // Ranks start with different weights, and with the same table.
        Generator random = Generator.seeded(5 + strategy.rank());
        try (Scope scope = Scope.open("test")) {
            Table table = houses();
            TableEncoder encoder = TableEncoder.builder().numbers("area", "age").categories("town", 5).target("price")
                    .build().adapt(table);
            List<String> towns = encoder.state().keySet().stream().filter(path -> path.endsWith("text")).toList();
            assertThat(towns).containsExactly("category0.text");
            double[] weights = new double[ROWS];
            Arrays.setAll(weights, i -> 1 + i % 3);
            try (Sequential model = Sequential.of(encoder, Linear.of(encoder.width(), 16, random), new Relu(),
                            Linear.of(16, 1, random), encoder.output());
                    Optimizer adam = Adam.over(model).rate(0.02).build();
                    DataLoader data = DataLoader.of(WeightedDataset.of(encoder.dataset(table), weights, 100))
                            .batchSize(16).seed(3).shuffle().build();
                    DataLoader test = DataLoader.of(encoder.dataset(table)).batchSize(50).build(); strategy) {
                Trainer.Builder trainer = Trainer.of(model, Loss.meanSquared(), adam).data(data).heldOut(test)
                        .epochs(EPOCHS).strategy(strategy);
                return (captured ? trainer.captured() : trainer).build().run();
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aRingOfTwoHasTheLossesOfOneProcess(boolean captured) {
        History alone = train(new SingleProcess(), false);
        assertThat(alone.last().training().loss()).isLessThan(0.7 * alone.epochs().getFirst().training().loss());
        for (History each : Cluster.local(2).run(group -> train(RingAllReduce.over(group).bucketBytes(128).build(),
                captured))) {
            assertThat(each.epochs()).hasSize(EPOCHS);
            for (int i = 0; i < EPOCHS; i++) {
                EpochReport a = each.epochs().get(i);
                EpochReport b = alone.epochs().get(i);
                assertThat(a.training().loss()).isCloseTo(b.training().loss(), within(1e-4));
                assertThat(a.heldOut().orElseThrow().loss()).isCloseTo(b.heldOut().orElseThrow().loss(), within(1e-4));
            }
        }
    }
}
