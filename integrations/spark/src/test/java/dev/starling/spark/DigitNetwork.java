package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.model.ModelFactory;
import dev.starling.tensor.Generator;
import java.util.Map;

/** A small convolutional network for digits of 28 by 28 pixels, bytes as they are. */
public final class DigitNetwork implements ModelFactory {
    /** Called by reflection. */
    public DigitNetwork() {
    }

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        return Sequential.of(x -> x.mul(1 / 255f), Conv2d.of(1, 16, 3).padding(1).withoutBias().build(generator),
                BatchNorm.of(16), new Relu(), MaxPool2d.of(2),
                Conv2d.of(16, 32, 3).padding(1).withoutBias().build(generator), BatchNorm.of(32), new Relu(),
                MaxPool2d.of(2), new Flatten(), Linear.of(32 * 7 * 7, 64, generator), new Relu(),
                Linear.of(64, 10, generator));
    }
}
