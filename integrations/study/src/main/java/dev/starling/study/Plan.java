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
 * One training: what the processes that train are told.
 *
 * @param setup by which strategy
 * @param recipe what is trained
 * @param seed of weights, order and variations of images
 * @param trainFile the training images, records as CIFAR-10's files have them
 * @param parquet folder that holds, or is to hold, the same images for Spark
 * @param directory folder in which the processes leave {@link Track} and weights
 */
record Plan(Setup setup, Recipe recipe, long seed, String trainFile, String parquet, String directory)
        implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Returns what builds the network. */
    static ModelDescription model(int width) {
        return ModelDescription.of(Photographs.class, Map.of(Photographs.WIDTH, Integer.toString(width)));
    }

    ModelDescription model() {
        return model(recipe.width());
    }

    /** Returns Adam with a rate that rises and falls once in {@code steps} of a worker. */
    Optimizer optimizer(Layer model, long steps) {
        return Adam.over(model).rate(Schedule.oneCycle(recipe.updateRate(setup), Math.max(2, steps))).build();
    }

    /** Returns where a rank leaves its track. */
    Path track(int rank) {
        return Path.of(directory).resolve("rank-" + rank + ".json");
    }
}
