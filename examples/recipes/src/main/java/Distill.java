import dev.starling.nn.*;
import dev.starling.nn.data.*;
import dev.starling.nn.layer.*;
import dev.starling.nn.loss.*;
import dev.starling.nn.model.*;
import dev.starling.nn.optim.*;
import dev.starling.nn.train.*;
import dev.starling.tensor.*;

/** The points {@code [N, 2]}. */
record Input(Tensor points) { }

/** The logits {@code [N, 2]} for each loss: against the teacher's logits, and against the labels. */
record Output(Tensor soft, Tensor hard) { }

/** A network with the same result for both losses. */
record Student(Sequential network) implements Model<Input, Output> {
    @Override
    public Output forward(Input in) {
        Tensor logits = network.apply(in.points());
        return new Output(logits, logits);
    }
}

/** Returns for each point whether it lies on a ring. */
Tensor ring(Tensor points) {
    Tensor radius = points.square().sum(1).sqrt();
    return radius.gt(0.5).and(radius.lt(0.8)).to(DType.I64);
}

void main() {
    Generator random = Generator.seeded(42);
    Tensor points = random.uniform(4000, 2).mul(2).sub(1);
    Tensor some = random.uniform(1000, 2).mul(2).sub(1);
    Sequential teacher = Networks.mlp(random, 2, 64, 64, 2);
    Student student = new Student(Networks.mlp(random, 2, 24, 24, 2));
    try (DataLoader train = DataLoader.of(TensorDataset.of(points, ring(points))).batchSize(50).shuffle().build()) {
        Trainer.of(teacher, Loss.crossEntropy(), Adam.over(teacher).rate(0.005).build()).data(train).epochs(15).build()
                .run();
    }
    // The student learns what the teacher computes, with the shares of all classes, and the labels.
    TensorDataset taught = TensorDataset.of(new Input(points), new Output(Predictions.of(teacher, points),
            ring(points)));
    TensorDataset test = TensorDataset.of(new Input(some), new Output(Predictions.of(teacher, some), ring(some)));
    Objective objective = Objective.of("soft", Loss.distillation(2), 0.7).and("hard", Loss.crossEntropy(), 0.3);
    try (DataLoader train = DataLoader.of(taught).batchSize(50).shuffle().build();
            DataLoader heldOut = DataLoader.of(test).batchSize(1000).build()) {
        IO.println("student: " + Trainer.of(student, objective, Adam.over(student).rate(0.005).build()).data(train)
                .heldOut(heldOut).metrics(Metric.accuracy().on("hard")).epochs(15).build().run().last());
    }
}
