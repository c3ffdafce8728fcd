package dev.starling.study;

import dev.starling.nn.Layer;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.ImageDataset;
import dev.starling.nn.data.LabelledImages;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Scores;
import dev.starling.tensor.Generator;
import java.nio.file.Path;

/** Measures the accuracy of weights on the held-out images, with all processors. Used by one thread. */
final class Examiner implements AutoCloseable {
    private static final int BATCH = 250;

    private final Layer model;
    private final DataLoader heldOut;

    Examiner(int width, LabelledImages images) {
        model = Plan.model(width).build(Generator.seeded(0));
        heldOut = DataLoader.of(ImageDataset.of(images, Images.asBytes())).batchSize(BATCH).workers(1).build();
    }

    /** Returns the accuracy, 0 to 1. */
    double accuracy(Path weights) {
        try (SafeTensors file = SafeTensors.open(weights)) {
            file.into(model.state());
        }
        Metric accuracy = Metric.accuracy();
        return Scores.evaluate(model, Loss.crossEntropy(), heldOut, accuracy).metric(accuracy.name());
    }

    @Override
    public void close() {
        heldOut.close();
        model.close();
    }
}
