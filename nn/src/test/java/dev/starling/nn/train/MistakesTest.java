package dev.starling.nn.train;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.Graph;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.layer.Sigmoid;
import dev.starling.nn.layer.Softmax;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Messages for mistakes that programs make often: what is wrong, where, and what to do. */
class MistakesTest {
    private final Scope scope = Scope.open();
    private final Generator random = Generator.seeded(1);

    @AfterEach
    void close() {
        scope.close();
    }

    private static void fails(ThrowingCallable call, String... parts) {
        assertThatThrownBy(call).isInstanceOf(TensorException.class).hasMessageContainingAll(parts);
    }

    /** A container of the application, whose layers are fields. */
    private record Tower(Layer stem, Layer head) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return head.apply(stem.apply(x));
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("stem", stem);
            visitor.layer("head", head);
        }
    }

    @Test
    void namesThePathOfTheLayerInWhichAnErrorOccurs() {
        Layer wrong = Linear.of(5, 2, random);
        Sequential inner = Sequential.of(Linear.of(4, 4, random), new Relu(), Residual.of(wrong));
        Tensor x = random.normal(3, 4);
        fails(() -> inner.forward(x), "layer 2.body, Linear(5, 2): linear: the last size of x");
        Layer graph = Graph.of(in -> in.then("left", inner).add(in.then(new Relu())));
        fails(() -> graph.forward(x), "layer left.2.body, Linear(5, 2): ");
        fails(() -> Sequential.of(new Relu(), graph).forward(x), "layer 1.left.2.body, Linear(5, 2): ");
        Layer tower = new Tower(new Relu(), inner);
        fails(() -> tower.apply(x), "layer head.2.body, Linear(5, 2): ");
        // The trainer calls the model as a layer, so that the application's container is named too.
        Optimizer sgd = Sgd.over(tower).build();
        try (TrainingStep step = new TrainingStep(tower, Loss.meanSquared(), sgd, random)) {
            fails(() -> step.run(x, x), "layer head.2.body, Linear(5, 2): ");
        }
        // A layer that is fused with the activation behind it keeps its number.
        fails(() -> Sequential.of(new Relu(), wrong, new Relu()).forward(x), "layer 1, Linear(5, 2): ");
        // Outside of any container there is no path.
        assertThatThrownBy(() -> wrong.apply(x)).message().startsWith("linear: ");
    }

    @Test
    void saysThatChannelsAreInTheWrongPlace() {
        Tensor images = random.normal(2, 8, 8, 3);
        fails(() -> Conv2d.of(3, 4, 3).build(random).forward(images), "x has 8 channels", "movedim(-1, 1)");
        fails(() -> BatchNorm.of(3).forward(images), "batchNorm: x must be [N, 3, ..]", "movedim(-1, 1)");
        fails(() -> BatchNorm.of(4).forward(images), "batchNorm: x must be [N, 4, ..]", "number of channels of x");
    }

    @Test
    void refusesTheOptimizerOfAnotherModel() {
        Linear model = Linear.of(2, 2, random);
        Optimizer other = Sgd.over(Linear.of(2, 2, random)).build();
        fails(() -> new TrainingStep(model, Loss.meanSquared(), other, random),
                "the optimiser changes none of the model's 2 parameters", "over(model)");
    }

    @Test
    void refusesALossThatIsNoScalarAndAClosedModel() {
        Linear model = Linear.of(2, 2, random);
        Tensor x = random.normal(3, 2);
        try (TrainingStep step = new TrainingStep(model, (result, target) -> result.sub(target).square(),
                Sgd.over(model).build(), random)) {
            fails(() -> step.run(x, x), "a loss must be a scalar", "mean()");
        }
        try (TrainingStep step = new TrainingStep(model, Loss.meanSquared(), Sgd.over(model).build(), random)) {
            step.run(x, x);
            model.close();
            fails(() -> step.run(x, x), "the parameter weight is closed");
            fails(() -> Sequential.of(model).forward(x), "layer 0, Linear(2, 2), whose parameters are closed");
        }
    }

    @Test
    void saysWhereTheLossBecameNanAndWhetherTheInputWasNan() {
        float[] rows = new float[12];
        rows[9] = Float.NaN;
        Tensor bad = Tensor.of(rows, 12, 1);
        Linear model = Linear.of(1, 1, random);
        try (DataLoader data = DataLoader.of(TensorDataset.of(bad, Tensor.zeros(12, 1))).batchSize(4).build();
                DataLoader good = DataLoader.of(TensorDataset.of(Tensor.ones(12, 1), Tensor.zeros(12, 1)))
                        .batchSize(4).build(); Optimizer sgd = Sgd.over(model).build()) {
            fails(() -> Trainer.of(model, Loss.meanSquared(), sgd).data(data).build().run(),
                    "the loss is NaN in epoch 1, batch 3 (step 3)", "the input has an element that is infinite or NaN");
            int[] calls = {0};
            Loss fifth = (result, target) -> result.mean().mul(++calls[0] == 5 ? Double.NaN : 1);
            fails(() -> Trainer.of(model, fifth, sgd).data(good).epochs(2).build().run(),
                    "the loss is NaN in epoch 2, batch 2 (step 5)", "the input is finite", "lower the learning rate");
        }
    }

    @Test
    void saysThatTargetsAreNan() {
        Linear model = Linear.of(1, 1, random);
        try (DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(2, 1), Tensor.of(new float[] {1, Float.NaN},
                2, 1))).build(); Optimizer sgd = Sgd.over(model).build()) {
            fails(() -> Trainer.of(model, Loss.meanSquared(), sgd).data(data).build().run(),
                    "the target has an element that is infinite or NaN", "repair the data");
        }
    }

    @Test
    void refusesBinaryTargetsThatAreNoProbabilities() {
        Linear model = Linear.of(1, 1, random);
        for (float low : new float[] {-1, 1}) {
            Tensor labels = Tensor.of(new float[] {low, low + 2, low, low}, 4, 1);
            try (DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(4, 1), labels)).build();
                    Optimizer sgd = Sgd.over(model).rate(1).build()) {
                for (Loss loss : new Loss[] {Loss.binaryCrossEntropy(), Loss.binaryCrossEntropy().positiveWeight(2),
                        Loss.binaryCrossEntropy().times(2).plusL2(model, path -> true, 1e-3)}) {
                    fails(() -> Trainer.of(model, loss, sgd).data(data).epochs(20).build().run(),
                            "the targets must lie between 0 and 1", "the loss is -", "softMargin");
                    try (TrainingStep step = new TrainingStep(model, loss, sgd, random)) {
                        fails(() -> step.run(Tensor.ones(4, 1), labels), "the targets must lie between 0 and 1");
                    }
                    fails(() -> Scores.evaluate(model, loss, data), "the targets must lie between 0 and 1");
                }
                Scores.evaluate(model, Loss.binaryCrossEntropy().times(-1), data);
                for (Metric metric : new Metric[] {Metric.binaryAccuracy(), Metrics.recall(), Metrics.prAuc()}) {
                    if (low > 0) {
                        fails(() -> Scores.evaluate(model, Loss.meanSquared(), data, metric),
                                "targets must be 0 or 1, -1 or 1, or a probability");
                    } else {
                        Scores.evaluate(model, Loss.hinge(), data, metric);
                    }
                }
            }
        }
    }

    @Test
    void refusesAHeldOutLossThatIsNan() {
        Linear model = Linear.of(1, 1, random);
        Path file = Path.of("never-written");
        try (DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(4, 1), Tensor.zeros(4, 1))).build();
                DataLoader bad = DataLoader.of(TensorDataset.of(Tensor.of(new float[] {1, Float.NaN}, 2, 1),
                        Tensor.zeros(2, 1))).build(); Optimizer sgd = Sgd.over(model).build()) {
            for (TrainingListener listener : new TrainingListener[] {EarlyStopping.patience(2).restoreBest(model),
                    BestModel.of(model, file), Plateau.of(0.1)}) {
                fails(() -> Trainer.of(model, Loss.meanSquared(), sgd).data(data).heldOut(bad).epochs(3)
                        .listeners(listener).build().run(), "the held-out loss of epoch 1 is NaN", "repair");
            }
            EarlyStopping byMetric = EarlyStopping.patience(2).shrinking("mean absolute error");
            Trainer.of(model, Loss.meanSquared(), sgd).data(data).heldOut(bad).metrics(Metric.meanAbsoluteError())
                    .epochs(3).listeners(byMetric).build().run();
            assertThat(byMetric.bestEpoch()).isZero();
        }
    }

    /** A run that diverges ends as one that does not improve. */
    @Test
    void restoresTheBestWeightsAfterAHeldOutLossOfNan() {
        Linear model = Linear.of(1, 1, random);
        boolean[] diverged = new boolean[1];
        Layer layer = new Layer() {
            @Override
            public Tensor forward(Tensor x) {
                return diverged[0] && !Mode.isTraining() ? model.forward(x).mul(Double.NaN) : model.forward(x);
            }

            @Override
            public void visit(Visitor visitor) {
                visitor.layer("model", model);
            }
        };
        EarlyStopping stopping = EarlyStopping.patience(2).restoreBest(layer);
        TrainingListener divergence = new TrainingListener() {
            @Override
            public void epochEnded(Progress progress, EpochReport report) {
                diverged[0] = true;
            }
        };
        try (DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(4, 1), Tensor.zeros(4, 1))).build();
                Optimizer sgd = Sgd.over(layer).rate(0.1).build()) {
            int epochs = Trainer.of(layer, Loss.meanSquared(), sgd).data(data).heldOut(data).epochs(9)
                    .listeners(stopping, divergence).build().run().epochs().size();
            assertThat(stopping.bestEpoch()).isEqualTo(1);
            assertThat(epochs).isEqualTo(3);
        }
    }

    @Test
    void trainsOnABatchWithoutTargetsThatCount() {
        Linear model = Linear.of(1, 2, random);
        Tensor labels = Tensor.of(new long[] {0, 1, 1, -100, -100});
        try (DataLoader data = DataLoader.of(TensorDataset.of(Tensor.ones(5, 1), labels)).batchSize(3).build();
                Optimizer sgd = Sgd.over(model).build()) {
            for (Loss loss : new Loss[] {Loss.crossEntropy().ignoring(-100), Loss.crossEntropy().ignoring(-100)
                    .weights(1, 2), Loss.crossEntropy().ignoring(-100).focal(2)}) {
                List<float[]> after = new ArrayList<>();
                for (boolean captured : new boolean[] {false, true}) {
                    TrainingListener copies = new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            after.add(model.weight().value().toFloats());
                        }
                    };
                    Trainer.Builder trainer = Trainer.of(model, loss, sgd).data(data).epochs(4).listeners(copies);
                    (captured ? trainer.captured() : trainer).build().run();
                }
                for (int i = 0; i < after.size(); i += 2) {
                    assertThat(after.get(i + 1)).isEqualTo(after.get(i)).doesNotContain(Float.NaN);
                }
            }
        }
    }

    @Test
    void namesTheRemedyForALastBatchOfOneRow() {
        BatchNorm norm = BatchNorm.of(2);
        fails(() -> Mode.training(random, () -> norm.forward(Tensor.ones(1, 2))), "more than one value per channel",
                "dropLast()");
    }

    @Test
    void warnsOfASoftmaxUnderALossOnLogits() {
        List<String> warnings = new ArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                warnings.add(new java.util.logging.SimpleFormatter().formatMessage(record));
            }

            @Override
            public void flush() {
            }

            @Override
            public void close() {
            }
        };
        Logger logger = Logger.getLogger("dev.starling.nn");
        logger.addHandler(handler);
        try {
            Linear linear = Linear.of(2, 2, random);
            for (Layer last : new Layer[] {new Softmax(1), new Sigmoid(), new Relu()}) {
                Sequential model = Sequential.of(linear, Graph.of(x -> x.then("last", Sequential.of(last))));
                Loss loss = last instanceof Sigmoid ? Loss.binaryCrossEntropy() : Loss.crossEntropy();
                Tensor target = last instanceof Sigmoid ? Tensor.zeros(1, 2) : Tensor.of(new long[] {0});
                try (TrainingStep step = new TrainingStep(model, loss, Sgd.over(model).build(), random);
                        TrainingStep other = new TrainingStep(model, Loss.meanSquared(), Sgd.over(model).build(),
                                random)) {
                    step.run(Tensor.ones(1, 2), target);
                    step.run(Tensor.ones(1, 2), target);
                    other.run(Tensor.ones(1, 2), Tensor.zeros(1, 2));
                }
            }
            Layer own = x -> linear.forward(x).softmax(-1).reshape(-1, 2);
            try (TrainingStep step = new TrainingStep(own, Loss.crossEntropy(), Sgd.over(linear).build(), random)) {
                step.run(Tensor.ones(1, 2), Tensor.of(new long[] {0}));
            }
        } finally {
            logger.removeHandler(handler);
        }
        assertThat(warnings).hasSize(3);
        assertThat(warnings.getFirst()).contains("the model ends in a softmax", "CrossEntropyLoss", "expects logits");
        assertThat(warnings.get(1)).contains("the model ends in a sigmoid", "BinaryCrossEntropyLoss", "sigmoid");
        assertThat(warnings.getLast()).contains("the model ends in a softmax");
    }
}
