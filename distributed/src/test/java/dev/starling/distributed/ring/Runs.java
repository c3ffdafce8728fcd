package dev.starling.distributed.ring;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.Dataset;
import dev.starling.nn.data.Example;
import dev.starling.nn.data.Field;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;

/** Small trainings whose results are compared. */
final class Runs {
    static final int EXAMPLES = 330;
    static final int BATCH = 32;
    static final int EPOCHS = 10;
    /** 10 full batches and one of 10 rows. */
    static final int STEPS = 11 * EPOCHS;

    private Runs() { }

    /** Noisy images of 6×6 with a bright square in one of four corners. */
    private record BrightSquares(int size) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 1, 6, 6), Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) {
            float[] x = target.floats(0);
            long bits = index + 1;
            for (int i = 0; i < 36; i++) {
                bits = bits * 6364136223846793005L + 1442695040888963407L;
                x[i] = (bits >>> 40) / (float) (1 << 24) - 0.5f;
            }
            int corner = (int) (bits >>> 33) % 4;
            for (int i = 0; i < 4; i++) {
                x[(corner / 2 * 4 + i / 2) * 6 + corner % 2 * 4 + i % 2] += 1;
            }
            target.put(0, x);
            target.put(1, corner);
        }
    }

    static Layer mlp(Generator g) {
        return Sequential.of(new Flatten(), Linear.of(36, 16, g), new Relu(), Linear.of(16, 4, g));
    }

    static Layer cnn(Generator g) {
        return Sequential.of(Conv2d.of(1, 4, 3).padding(1).build(g), new Relu(), MaxPool2d.of(2), new Flatten(),
                Linear.of(36, 4, g));
    }

    static Layer normed(Generator g) {
        return Sequential.of(Conv2d.of(1, 4, 3).padding(1).build(g), BatchNorm.of(4), new Relu(), MaxPool2d.of(2),
                new Flatten(), Linear.of(36, 4, g));
    }

    record Outcome(Map<String, float[]> tensors, History history) { }

    static Outcome train(Function<Generator, Layer> network, DistributionStrategy strategy,
            Consumer<Trainer.Builder> more) {
        return train(network, BATCH, strategy, more);
    }

    static Outcome train(Function<Generator, Layer> network, int batch, DistributionStrategy strategy,
            Consumer<Trainer.Builder> more) {
        // Ranks start with different weights.
        try (Layer net = network.apply(Generator.seeded(5 + strategy.rank()));
                Optimizer sgd = Sgd.over(net).rate(0.05).momentum(0.9).build();
                DataLoader data = DataLoader.of(new BrightSquares(EXAMPLES)).batchSize(batch).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(new BrightSquares(100)).batchSize(50).build(); strategy) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), sgd).data(data).heldOut(test).epochs(EPOCHS)
                    .seed(9).metrics(Metric.accuracy()).strategy(strategy);
            more.accept(builder);
            History history = builder.build().run();
            Map<String, float[]> tensors = new LinkedHashMap<>();
            net.state().forEach((path, p) -> tensors.put(path, p.value().toFloats()));
            sgd.state().forEach((path, p) -> tensors.put("optimizer " + path, p.value().toFloats()));
            return new Outcome(tensors, history);
        }
    }

    static void assertClose(Outcome outcome, Outcome expected, float tolerance) {
        assertThat(outcome.tensors.keySet()).isEqualTo(expected.tensors.keySet());
        expected.tensors.forEach((path, t) -> assertThat(outcome.tensors.get(path)).as(path)
                .containsExactly(t, within(tolerance)));
    }
}
