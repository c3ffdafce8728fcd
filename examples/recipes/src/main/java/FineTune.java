import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.model.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** Returns points in a square, with the classes that a function of their distances from the centre gives them. */
DataLoader points(int count, int batch, Generator random, UnaryOperator<Tensor> classes) {
    Tensor points = random.uniform(count, 2).mul(2).sub(1);
    Tensor radius = points.square().sum(1).sqrt();
    return DataLoader.of(TensorDataset.of(points, classes.apply(radius))).batchSize(batch).shuffle().build();
}

Sequential network(long classes, Generator random) {
    return Sequential.of(Linear.of(2, 64, random), new Relu(), Linear.of(64, 64, random), new Relu(),
            Linear.of(64, classes, random));
}

/** Trains for as long as the accuracy grows, saves the best model in a file and restores its weights. */
History train(Sequential model, Optimizer optimizer, DataLoader data, DataLoader heldOut, Path file) {
    return Trainer.of(model, Loss.crossEntropy(), optimizer).data(data).heldOut(heldOut).epochs(60)
            .metrics(Metric.accuracy()).listeners(EarlyStopping.patience(6).growing("accuracy").restoreBest(model),
                    BestModel.of(model, file).growing("accuracy")).build().run();
}

void main() throws IOException {
    Generator random = Generator.seeded(42);
    Path directory = Files.createTempDirectory("fine-tune");
    // Pre-training with much data: which points lie on a ring?
    UnaryOperator<Tensor> ring = radius -> radius.gt(0.5).and(radius.lt(0.8)).to(DType.I64);
    Sequential first = network(2, random);
    try (DataLoader data = points(4000, 50, random, ring); DataLoader heldOut = points(1000, 1000, random, ring)) {
        train(first, Adam.over(first).rate(0.005).build(), data, heldOut, directory.resolve("ring.safetensors"));
    }
    // Fine-tuning with little: inside, on or outside of the ring. The first layer is frozen, the second learns slowly.
    Sequential pretrained = network(2, random);
    IO.println("pre-trained " + pretrained.load(directory.resolve("ring.safetensors")).metrics());
    Sequential model = Layers.replace(pretrained, "4", Linear.of(64, 3, random));
    model.freeze(path -> path.startsWith("0."));
    Optimizer optimizer = Adam.over(model).rate(0.01).rate(path -> path.startsWith("2."), 0.001).build();
    UnaryOperator<Tensor> side = radius -> radius.gt(0.5).to(DType.I64).add(radius.gt(0.8).to(DType.I64));
    try (DataLoader data = points(300, 20, random, side); DataLoader heldOut = points(1000, 1000, random, side)) {
        train(model, optimizer, data, heldOut, directory.resolve("side.safetensors"));
        ConfusionMatrix matrix = ConfusionMatrix.evaluate(model, heldOut, 3).named(List.of("inside", "on", "outside"));
        IO.println(matrix);
        matrix.draw(directory.resolve("confusion.svg"));
    }
}
