package dev.starling.jmh.startup;

import dev.starling.nn.Sequential;
import dev.starling.nn.model.Networks;
import dev.starling.nn.serve.Predictor;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;

/** The smallest consumer: makes a model, predicts once and prints a line. */
final class FirstPrediction {
    static final String DONE = "first prediction of class ";

    private FirstPrediction() {
    }

    /** Predicts by the model itself, or, with the argument {@code predictor}, by a {@link Predictor}. */
    public static void main(String[] arguments) {
        try (Sequential model = Networks.mlp(Generator.seeded(42), 784, 128, 10); Scope scope = Scope.open("first")) {
            Tensor scores;
            if (arguments.length == 0) {
                scores = model.forward(Tensor.ones(1, 784));
            } else {
                try (Predictor predictor = Predictor.of(model, 784).maxBatch(8).build()) {
                    scores = predictor.predict(Tensor.ones(784));
                }
            }
            System.out.println(DONE + scores.argmax(-1).itemLong());
        }
    }
}
