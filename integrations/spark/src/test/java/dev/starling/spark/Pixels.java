package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.model.ModelFactory;
import dev.starling.tensor.Generator;
import java.util.Map;

/**
 * A model that returns its input; with the setting {@code together}, as a single row; with the setting {@code classes},
 * a classifier of images of 3 x 4 x 6 numbers.
 */
public final class Pixels implements ModelFactory {
    /** Called by reflection. */
    public Pixels() {
    }

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        if (settings.containsKey("together")) {
            return x -> x.reshape(1, -1);
        }
        return settings.containsKey("classes") ? Sequential.of(x -> x.mul(1 / 255f), new Flatten(),
                Linear.of(72, 2, generator)) : new Flatten();
    }
}
