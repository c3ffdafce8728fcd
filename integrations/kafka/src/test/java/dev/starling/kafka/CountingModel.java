package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;

/**
 * A model whose weights count the rows of its training: with the loss {@code -sum(result)} and a rate of 1, each
 * step adds the sum of its rows to the weights. Sums of small whole numbers are exact in f32, in any order.
 */
final class CountingModel {
    static final Loss LOSS = (result, target) -> result.sum().neg();

    private CountingModel() {
    }

    static Layer create(int inputs) {
        Layer model = Linear.of(inputs, 1, Generator.seeded(1));
        try (Scope scope = Scope.open("zeros")) {
            model.state().get("weight").set(Tensor.zeros(1, inputs));
            model.state().get("bias").set(Tensor.zeros(1));
        }
        return model;
    }

    static Optimizer optimizer(Layer model) {
        return Sgd.over(model).rate(1.0).build();
    }
}
