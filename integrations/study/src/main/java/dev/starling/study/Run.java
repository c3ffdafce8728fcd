package dev.starling.study;

import java.util.List;
import java.util.OptionalDouble;

/**
 * The measurements of one training.
 *
 * @param seed of weights and order
 * @param imagesPerSecond images per second of all workers together
 * @param trainingSeconds from the start of the first step to the end of the last
 * @param evaluationSeconds time of the measurement of accuracy afterwards; not part of the other times
 * @param wholeSeconds from the start of the processes to their end
 * @param points accuracy during the training, in order
 */
record Run(long seed, double imagesPerSecond, double trainingSeconds, double evaluationSeconds, double wholeSeconds,
        List<Point> points) {
    /**
     * Accuracy at one time of the training.
     *
     * @param images that all workers had trained on
     * @param seconds since the start of the first step
     * @param accuracy on held-out images, 0 to 1
     */
    record Point(long images, double seconds, double accuracy) { }

    /** Returns the seconds until the accuracy was first measured to be at least {@code goal}. */
    OptionalDouble secondsTo(double goal) {
        return points.stream().filter(p -> p.accuracy >= goal).mapToDouble(Point::seconds).findFirst();
    }

    /** Returns the number of images until the accuracy was first measured to be at least {@code goal}. */
    OptionalDouble imagesTo(double goal) {
        return points.stream().filter(p -> p.accuracy >= goal).mapToDouble(Point::images).findFirst();
    }

    /** Returns the highest accuracy that was measured. */
    double best() {
        return points.stream().mapToDouble(Point::accuracy).max().orElse(0);
    }
}
