package dev.starling.jmh.startup;

import dev.starling.nn.Sequential;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.serve.Predictor;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;

/** The smallest consumers: each makes a model, computes one result and prints a line. */
final class FirstResult {
    static final String DONE = "first result: ";

    private FirstResult() {
    }

    /** Computes what its argument, one of {@link Kind}, names. */
    public static void main(String[] arguments) {
        try (Scope scope = Scope.open("first")) {
            System.out.println(DONE + Kind.valueOf(arguments[0]).compute());
        }
    }

    /** What is computed. */
    enum Kind {
        /** The class that a model predicts. */
        PREDICTION {
            @Override
            double compute() {
                try (Sequential model = small()) {
                    return model.forward(Tensor.ones(1, 784)).argmax(-1).itemLong();
                }
            }
        },
        /** The class that a {@link Predictor} returns, which warms up first. */
        PREDICTOR {
            @Override
            double compute() {
                try (Sequential model = small();
                        Predictor predictor = Predictor.of(model, 784).maxBatch(8).build()) {
                    return predictor.predict(Tensor.ones(784)).argmax(-1).itemLong();
                }
            }
        },
        /** The loss of a training step with Adam, 784-1024-1024-10, batch 128. */
        TRAINING {
            @Override
            double compute() {
                Generator generator = Generator.seeded(42);
                try (Sequential model = Networks.mlp(generator, 784, 1024, 1024, 10);
                        TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), Adam.over(model).build(),
                                generator)) {
                    return step.run(generator.normal(128, 784), Tensor.of(new long[128]));
                }
            }
        };

        abstract double compute();

        private static Sequential small() {
            return Networks.mlp(Generator.seeded(42), 784, 128, 10);
        }
    }
}
