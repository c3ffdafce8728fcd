package dev.starling.study;

import dev.starling.nn.Layer;
import dev.starling.nn.model.ModelDescription;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Schedule;
import java.io.Serializable;
import java.nio.file.Path;
import java.util.Map;

/**
 * One training: the configuration that its processes read.
 *
 * @param setup the strategy
 * @param recipe network, images and rates
 * @param seed of weights, order and variations of images
 * @param trainFile the training images, records as CIFAR-10's files have them
 * @param parquet folder of the same images for Spark; written if missing
 * @param directory folder in which the processes write {@link Track} and weights
 */
record Plan(Setup setup, Recipe recipe, long seed, String trainFile, String parquet, String directory)
        implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Returns the description of the network. */
    static ModelDescription model(int width) {
        return ModelDescription.of(Photographs.class, Map.of(Photographs.WIDTH, Integer.toString(width)));
    }

    ModelDescription model() {
        return model(recipe.width());
    }

    /** Returns Adam with a one-cycle rate over the {@code steps} of a worker. */
    Optimizer optimizer(Layer model, long steps) {
        return Adam.over(model).rate(Schedule.oneCycle(recipe.updateRate(setup), Math.max(2, steps))).build();
    }

    /** Returns the file of a rank's track. */
    Path track(int rank) {
        return Path.of(directory).resolve("rank-" + rank + ".json");
    }
}
