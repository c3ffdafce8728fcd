package dev.starling.kafka;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.model.ModelFactory;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Map;

/**
 * A model whose results show its version {@code v}: {@code v * (a + b + c + d) + v²}, exact in f32, with {@code v} in
 * the first layer and {@code v²} in the second, so that a partly loaded model gives a different result.
 */
public final class SumModel implements ModelFactory {
    static final int COLUMNS = 4;

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        return Sequential.of(Linear.of(Integer.parseInt(settings.get("columns")), 1, generator),
                Linear.of(1, 1, generator));
    }

    static Map<String, String> metadata() {
        return ModelDescription.of(SumModel.class, Map.of("columns", Integer.toString(COLUMNS))).metadata();
    }

    static Layer ofVersion(long version) {
        Layer model = new SumModel().create(Map.of("columns", Integer.toString(COLUMNS)), Generator.seeded(1));
        try (Scope scope = Scope.open("weights")) {
            float v = version;
            model.state().get("0.weight").set(Tensor.of(new float[] {v, v, v, v}, 1, COLUMNS));
            model.state().get("0.bias").set(Tensor.zeros(1));
            model.state().get("1.weight").set(Tensor.ones(1, 1));
            model.state().get("1.bias").set(Tensor.of(new float[] {v * v}, 1));
        }
        return model;
    }

    static float[] row(long id) {
        return new float[] {id % 97, id % 31, id % 7, 1};
    }

    static float expected(long id, long version) {
        return version * (id % 97 + id % 31 + id % 7 + 1) + version * version;
    }
}
