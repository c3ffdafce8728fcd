package example;

import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Softmax;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/** The model to serve: on which of two interleaved spirals is a point? */
final class Spirals {
    private Spirals() {
    }

    /** Trains a model that returns the probabilities of the two spirals for a point. */
    static Sequential trained() {
        Generator random = Generator.seeded(42);
        Tensor spiral = random.integers(0, 2, 2000);
        Tensor radius = random.uniform(2000);
        Tensor angle = radius.mul(8).add(spiral.to(DType.F32).mul(Math.PI));
        Tensor points = Tensor.stack(1, radius.mul(angle.cos()), radius.mul(angle.sin()));
        Sequential model = Sequential.of(Linear.of(2, 32, random), new Relu(), Linear.of(32, 32, random), new Relu(),
                Linear.of(32, 2, random));
        try (DataLoader train = DataLoader.of(TensorDataset.of(points, spiral)).batchSize(50).shuffle().build()) {
            Trainer.of(model, Loss.crossEntropy(), Adam.over(model).rate(0.01).build())
                    .data(train).epochs(3).build().run();
        }
        return Sequential.of(model, new Softmax(1));
    }
}
