import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** What is known of houses: the number of the town {@code [N]}; size and age {@code [N, 2]}. */
record Input(Tensor town, Tensor numbers) { }

/** What is predicted: the price {@code [N]}, and logits of three kinds {@code [N, 3]}. */
record Output(Tensor price, Tensor kind) { }

/** Embeds the town, joins it with the numbers, and has one head for each result. */
record House(Embedding towns, Linear first, Linear second, Linear price, Linear kind) implements Model<Input, Output> {
    static House of(Generator random) {
        return new House(Embedding.of(20, 4, random), Linear.of(6, 32, random), Linear.of(32, 32, random),
                Linear.of(32, 1, random), Linear.of(32, 3, random));
    }

    @Override
    public Output forward(Input in) {
        Tensor x = Tensor.concat(1, towns.apply(in.town()), in.numbers());
        Tensor y = second.apply(first.apply(x).relu()).relu();
        return new Output(price.apply(y).squeeze(-1), kind.apply(y));
    }
}

/** Returns houses whose inputs and targets are found by the names of the components. */
TensorDataset houses(int count, Generator random) {
    Tensor town = random.integers(0, 20, count);
    Tensor numbers = random.uniform(count, 2);
    Tensor size = numbers.unstack(1)[0];
    Tensor age = numbers.unstack(1)[1];
    Tensor price = size.mul(town.to(DType.F32).mul(0.05).add(1)).sub(age.mul(0.5));
    Tensor kind = size.gt(0.5).to(DType.I64).add(age.gt(0.5).to(DType.I64));
    return TensorDataset.of(new Input(town, numbers), new Output(price, kind));
}

void main() {
    Generator random = Generator.seeded(42);
    House model = House.of(random);
    Objective objective = Objective.of("price", Loss.meanSquared()).and("kind", Loss.crossEntropy(), 0.5);
    try (DataLoader train = DataLoader.of(houses(4000, random)).batchSize(50).shuffle().build();
            DataLoader test = DataLoader.of(houses(1000, random)).batchSize(1000).build()) {
        IO.println(Trainer.of(model, objective, Adam.over(model).rate(0.005).build()).data(train).heldOut(test)
                .metrics(Metric.meanAbsoluteError().on("price"), Metric.accuracy().on("kind")).epochs(10).build()
                .run());
    }
    Output one = model.forward(new Input(Tensor.of(new long[] {7}), Tensor.of(new float[] {0.6f, 0.3f}, 1, 2)));
    IO.println("[kind=" + one.kind().argmax(1).itemLong() + ", price=" + one.price().item() + "]");
}
