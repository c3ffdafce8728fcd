package dev.starling.study;

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
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * The network of the study, for pixels {@code [N, 3, 32, 32]} from 0 to 255 in f32: six normalised 3×3 convolutions in
 * four stages, each followed by a pool, and a dense layer of ten logits. The setting
 * {@code width} is the number of channels of the first convolution; the last has eight times as many. Augmentation
 * and scaling of pixels are part of the network, so that all strategies train on the same images.
 */
public final class Photographs implements ModelFactory {
    /** The name of the setting. */
    static final String WIDTH = "width";

    private static final int CLASSES = 10;
    private static final int MARGIN = 2;
    /** Mean and deviation of all pixels of the training images; the three channels differ little. */
    private static final double MEAN = 120.7;
    private static final double DEVIATION = 64.2;

    /** Called by reflection. */
    public Photographs() {
    }

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        long width = Long.parseLong(settings.getOrDefault(WIDTH, "24"));
        List<Layer> layers = new ArrayList<>();
        layers.add(x -> x.sub(MEAN).mul(1 / DEVIATION));
        layers.add(new Variation(MARGIN));
        normalised(layers, 3, width, generator);
        layers.add(MaxPool2d.of(2));
        normalised(layers, width, 2 * width, generator);
        normalised(layers, 2 * width, 2 * width, generator);
        layers.add(MaxPool2d.of(2));
        normalised(layers, 2 * width, 4 * width, generator);
        normalised(layers, 4 * width, 4 * width, generator);
        layers.add(MaxPool2d.of(2));
        normalised(layers, 4 * width, 8 * width, generator);
        layers.add(MaxPool2d.of(4));
        layers.add(new Flatten());
        layers.add(Linear.of(8 * width, CLASSES, generator));
        return Sequential.of(layers);
    }

    private static void normalised(List<Layer> layers, long in, long out, Generator generator) {
        layers.add(Conv2d.of(in, out, 3).padding(1).withoutBias().build(generator));
        layers.add(BatchNorm.of(out));
        layers.add(new Relu());
    }
}
