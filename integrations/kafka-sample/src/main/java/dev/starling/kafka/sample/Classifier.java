package dev.starling.kafka.sample;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.model.ModelFactory;
import dev.starling.tensor.Generator;
import java.util.Map;

/** A small network of two inputs and two classes. */
public final class Classifier implements ModelFactory {
    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        int hidden = Integer.parseInt(settings.get("hidden"));
        return Sequential.of(Linear.of(Points.COLUMNS, hidden, generator), new Relu(),
                Linear.of(hidden, 2, generator));
    }
}
