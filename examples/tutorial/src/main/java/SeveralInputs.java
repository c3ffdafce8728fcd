import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** The number of a product {@code [N]}, and its weight and size {@code [N, 2]}. */
record Parcel(Tensor product, Tensor numbers) { }

/** The postage {@code [N]}, and logits of two carriers {@code [N, 2]}. */
record Dispatch(Tensor postage, Tensor carrier) { }

/** A record is a model: its components are its layers. */
record Post(Embedding products, Linear hidden, Linear postage, Linear carrier) implements Model<Parcel, Dispatch> {
    static Post of(Generator random) {
        return new Post(Embedding.of(10, 4, random), Linear.of(6, 32, random), Linear.of(32, 1, random),
                Linear.of(32, 2, random));
    }

    @Override
    public Dispatch forward(Parcel in) {
        Tensor x = hidden.apply(Tensor.concat(1, products.apply(in.product()), in.numbers())).relu();
        return new Dispatch(postage.apply(x).squeeze(-1), carrier.apply(x));
    }
}

void main() {
    Generator random = Generator.seeded(3);
    Tensor product = random.integers(0, 10, 3000);
    Tensor numbers = random.uniform(3000, 2);
    Tensor postage = numbers.sum(1).add(product.to(DType.F32).mul(0.1));
    TensorDataset parcels = TensorDataset.of(new Parcel(product, numbers),
            new Dispatch(postage, postage.gt(1.5).to(DType.I64)));
    Post model = Post.of(random);
    // The data have a field for each input, and for each result the one that is its target, with the same names.
    Objective objective = Objective.of("postage", Loss.meanSquared()).and("carrier", Loss.crossEntropy(), 0.5);
    try (DataLoader data = DataLoader.of(parcels).batchSize(50).shuffle().build()) {
        History history = Trainer.of(model, objective, Adam.over(model).rate(0.01).build()).data(data).epochs(10)
                .metrics(Metric.accuracy().on("carrier")).build().run();
        IO.println("parcels: " + history.epochs().getLast());
    }
}
