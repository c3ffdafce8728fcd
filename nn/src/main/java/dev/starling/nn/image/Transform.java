package dev.starling.nn.image;

import java.util.random.RandomGenerator;

/** Changes an image, at random if it wants to. Several threads call it concurrently. {@link Transforms} makes some. */
@FunctionalInterface
public interface Transform {
    /**
     * Returns the changed image.
     *
     * @param image the transform's own, which it may change and return
     * @param random depends only on the seed, the epoch and the example; all random decisions must come from it
     */
    Image apply(Image image, RandomGenerator random);

    /** Returns a transform that applies this one with a probability, and otherwise returns the image as it is. */
    default Transform withProbability(double probability) {
        return (image, random) -> random.nextDouble() < probability ? apply(image, random) : image;
    }
}
