package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.Trainer;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The texts of layers, optimisers, schedules and reports. */
class PrintedTest {
    private final Generator random = Generator.seeded(1);

    @Test
    void printsAModelAsATree() {
        try (Sequential model = Sequential.of(Conv2d.of(3, 8, 3).padding(1).withoutBias().build(random),
                BatchNorm.of(8), new Relu(), Residual.of(Sequential.of(new Dropout(0.5))), x -> x, new Flatten(),
                Graph.of(x -> x.then("head", Linear.of(8, 2, random))), Lstm.of(2, 3).bidirectional().build(random))) {
            assertThat(model.toString()).isEqualTo("""
                    Sequential(
                      (0): Conv2d(3, 8, kernel=[3, 3], padding=[1, 1], bias=false)
                      (1): BatchNorm(8, epsilon=1.0E-5, momentum=0.1)
                      (2): Relu()
                      (3): Residual(
                        (body): Sequential(
                          (0): Dropout(probability=0.5)
                        )
                      )
                      (4): Function()
                      (5): Flatten()
                      (6): Graph(
                        (head): Linear(8, 2)
                      )
                      (7): Lstm(2, 3, bidirectional)
                    )""");
        }
    }

    private record Wrapped(Layer inner) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return inner.apply(x);
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("inner", inner);
        }
    }

    @Test
    void printsALayerOfTheUser() {
        assertThat(new Wrapped(new Relu()).tree()).isEqualTo("Wrapped(\n  (inner): Relu()\n)");
    }

    @Test
    void printsSchedulesAndOptimizers() {
        assertThat(Schedule.cosine(0.1, 0, 50).warmUp(5)).hasToString(
                "cosine from 0.1 to 0.0 over 50 steps, warm-up over 5 steps");
        try (Linear layer = Linear.of(1000, 2, random);
                Optimizer sgd = ClipByNorm.of(Sgd.over(layer).momentum(0.9).rate(0.5).build(), 1)) {
            assertThat(sgd.toString()).startsWith("Sgd[momentum=0.9, ").endsWith(
                    "], rate constant 0.5, 2 parameters with 2,002 weights, norm of the gradients at most 1.0");
        }
    }

    /** Reports, progress and texts all count epochs from 1. */
    @Test
    void countsEpochsAlikeEverywhere() {
        List<String> seen = new ArrayList<>();
        try (Scope scope = Scope.open(); Linear model = Linear.of(1, 1, random);
                Optimizer sgd = Sgd.over(model).rate(0.1).build();
                DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(4, 1), Tensor.ones(4, 1))).build()) {
            History history = Trainer.of(model, Loss.meanSquared(), sgd).data(data).heldOut(data).epochs(2)
                    .listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            seen.add(progress.epoch() + " of " + progress.epochs());
                        }
                    }).build().run();
            assertThat(seen).containsExactly("1 of 2", "2 of 2");
            assertThat(history.epochs()).extracting(e -> e.epoch()).containsExactly(1, 2);
            assertThat(history.toString().lines()).hasSize(2).first().asString()
                    .matches("epoch 1  loss \\S+  held-out loss \\S+  \\(1 steps, \\S+ s\\)");
        }
    }
}
