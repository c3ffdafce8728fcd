import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** Learns the sine from examples. */
void main() {
    Generator random = Generator.seeded(1);
    Tensor x = random.uniform(2000, 1).mul(6);
    TensorDataset examples = TensorDataset.of(x, x.sin());
    Sequential model = Sequential.of(Linear.of(1, 64, random), new Tanh(), Linear.of(64, 1, random));
    IO.println(model);
    try (DataLoader data = DataLoader.of(examples).batchSize(50).shuffle().build()) {
        History history = Trainer.of(model, Loss.meanSquared(), Adam.over(model).rate(0.01).build())
                .data(data).epochs(30).build().run();
        IO.println(history.epochs().getLast());
    }
    Tensor two = Tensor.of(new float[] {2}, 1, 1);
    IO.println("sin(2) = " + model.forward(two).item());
}
