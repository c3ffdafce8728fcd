package dev.starling.distributed.network;

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
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.util.List;
import java.util.random.RandomGenerator;
import java.util.random.RandomGeneratorFactory;

/** Fits 32 sums of 32 inputs each: y_i = 2 x_i - x_(i+1), without noise, so the solution is known. */
record LineFit(int size) implements Dataset {
    private static final int WIDTH = 32;
    private static final int EXAMPLES = 600;
    private static final int BATCH = 60;
    private static final int STEPS_PER_EPOCH = EXAMPLES / BATCH;

    @Override
    public List<Field> fields() {
        return List.of(Field.of(DType.F32, WIDTH), Field.of(DType.F32, WIDTH));
    }

    @Override
    public void write(int index, Example target) {
        RandomGenerator random = RandomGeneratorFactory.of("L64X128MixRandom").create(index);
        float[] x = target.floats(0);
        float[] y = target.floats(1);
        for (int i = 0; i < WIDTH; i++) {
            x[i] = random.nextFloat() * 2 - 1;
        }
        for (int i = 0; i < WIDTH; i++) {
            y[i] = 2 * x[i] - x[(i + 1) % WIDTH];
        }
        target.put(0, x);
        target.put(1, y);
    }

    /** Trains, and returns the weights, {@code [32, 32]}. */
    static float[] train(DistributionStrategy strategy, int steps, TrainingListener listener) {
        // Each rank starts with different weights.
        try (Layer model = Linear.of(WIDTH, WIDTH, Generator.seeded(1 + strategy.rank()));
                Optimizer optimizer = Sgd.over(model).rate(8).build();
                DataLoader data = DataLoader.of(new LineFit(EXAMPLES)).batchSize(BATCH).workers(0).seed(3).shuffle()
                        .build(); strategy) {
            Trainer.of(model, Loss.meanSquared(), optimizer).data(data).epochs(Math.ceilDiv(steps, STEPS_PER_EPOCH))
                    .seed(9).strategy(strategy).listeners(listener).build().run();
            return model.parameters().values().stream().filter(p -> p.shape().rank() == 2).findFirst().orElseThrow()
                    .value().toFloats();
        }
    }

    /** Returns the maximum distance of a weight from the solution. */
    static double error(float[] weights) {
        double worst = 0;
        for (int out = 0; out < WIDTH; out++) {
            for (int in = 0; in < WIDTH; in++) {
                double right = in == out ? 2 : in == (out + 1) % WIDTH ? -1 : 0;
                worst = Math.max(worst, Math.abs(weights[out * WIDTH + in] - right));
            }
        }
        return worst;
    }
}
