import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** Returns points on two interleaved spirals; the class of a point is the number of its spiral. */
TensorDataset spirals(int points, Generator random) {
    Tensor spiral = random.integers(0, 2, points);
    Tensor radius = random.uniform(points);
    Tensor angle = radius.mul(8).add(spiral.to(DType.F32).mul(Math.PI));
    return TensorDataset.of(Tensor.stack(1, radius.mul(angle.cos()), radius.mul(angle.sin())), spiral);
}

void main() {
    Generator random = Generator.seeded(42);
    Sequential model = Sequential.of(Linear.of(2, 64, random), new Relu(),
            Linear.of(64, 64, random), new Relu(), Linear.of(64, 2, random));
    try (DataLoader train = DataLoader.of(spirals(4000, random)).batchSize(50).shuffle().build();
            DataLoader test = DataLoader.of(spirals(1000, random)).batchSize(1000).build()) {
        Trainer.of(model, Loss.crossEntropy(), Adam.over(model).rate(0.005).build())
                .data(train).heldOut(test).metrics(Metric.accuracy()).epochs(15).build()
                .run().epochs().forEach(IO::println);
    }
}
