package dev.starling.study;

import java.util.List;
import java.util.OptionalDouble;

/**
 * One training and what came of it.
 *
 * @param seed of weights and order
 * @param imagesPerSecond that all workers together trained on
 * @param trainingSeconds from the first step's begin to the last step's end
 * @param evaluationSeconds that measuring took afterwards; not part of any other time
 * @param wholeSeconds from the start of the processes to their end
 * @param points accuracy on the way, in order
 */
record Run(long seed, double imagesPerSecond, double trainingSeconds, double evaluationSeconds, double wholeSeconds,
        List<Point> points) {
    /**
     * Accuracy at a moment of the training.
     *
     * @param images that all workers had trained on
     * @param seconds since the first step's begin
     * @param accuracy share of right answers on held-out images, 0 to 1
     */
    record Point(long images, double seconds, double accuracy) { }

    /** Returns the seconds until the accuracy was first measured to be at least {@code goal}. */
    OptionalDouble secondsTo(double goal) {
        return points.stream().filter(p -> p.accuracy >= goal).mapToDouble(Point::seconds).findFirst();
    }

    /** Returns the images trained on until then. */
    OptionalDouble imagesTo(double goal) {
        return points.stream().filter(p -> p.accuracy >= goal).mapToDouble(Point::images).findFirst();
    }

    /** Returns the greatest accuracy that was measured. */
    double best() {
        return points.stream().mapToDouble(Point::accuracy).max().orElse(0);
    }
}
