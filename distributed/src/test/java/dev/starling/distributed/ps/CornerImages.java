package dev.starling.distributed.ps;

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
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.DistributionStrategy;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Consumer;
import java.util.function.Function;

/** Noisy 6×6 images with a bright square in one of four corners, and networks that learn to classify them. */
record CornerImages(int size) implements Dataset {
    static final int EXAMPLES = 330;

    @Override
    public List<Field> fields() {
        return List.of(Field.of(DType.F32, 1, 6, 6), Field.of(DType.I64));
    }

    @Override
    public void write(int index, Example target) {
        Random random = new Random(index);
        float[] x = target.floats(0);
        for (int i = 0; i < 36; i++) {
            x[i] = random.nextFloat() - 0.5f;
        }
        int corner = random.nextInt(4);
        for (int i = 0; i < 4; i++) {
            x[(corner / 2 * 4 + i / 2) * 6 + corner % 2 * 4 + i % 2] += 1;
        }
        target.put(0, x);
        target.put(1, corner);
    }

    static Layer perceptron(Generator g) {
        return Sequential.of(new Flatten(), Linear.of(36, 300, g), new Relu(), Linear.of(300, 4, g));
    }

    static Layer normed(Generator g) {
        return Sequential.of(Conv2d.of(1, 4, 3).padding(1).build(g), BatchNorm.of(4), new Relu(), new Flatten(),
                Linear.of(144, 4, g));
    }

    record Outcome(Map<String, float[]> weights, History history) {
        double accuracy() {
            return history.last().heldOut().orElseThrow().metric("accuracy");
        }
    }

    static Outcome train(Function<Generator, Layer> network, Function<Layer, Optimizer> optimizer, int epochs,
            DistributionStrategy strategy, Consumer<Trainer.Builder> more) {
        // Each rank starts with different weights.
        try (Layer net = network.apply(Generator.seeded(5 + strategy.rank()));
                Optimizer trained = optimizer.apply(net);
                DataLoader data = DataLoader.of(new CornerImages(EXAMPLES)).batchSize(32).seed(3).shuffle().build();
                DataLoader test = DataLoader.of(new CornerImages(100)).batchSize(50).build(); strategy) {
            Trainer.Builder builder = Trainer.of(net, Loss.crossEntropy(), trained).data(data).heldOut(test)
                    .epochs(epochs).seed(9).metrics(Metric.accuracy()).strategy(strategy);
            more.accept(builder);
            History history = builder.build().run();
            Map<String, float[]> weights = new LinkedHashMap<>();
            net.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
            return new Outcome(weights, history);
        }
    }
}
