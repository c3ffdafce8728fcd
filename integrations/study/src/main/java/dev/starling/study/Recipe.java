package dev.starling.study;

import java.io.Serializable;

/**
 * How every row trains.
 *
 * @param images to train on
 * @param width channels of the network's first convolution
 * @param epochs passes over the images
 * @param batch images in a step of all workers; where workers do not share steps, each takes an even part of it
 * @param rate greatest rate of Adam's one-cycle schedule at that batch
 * @param every images, seen by all workers, between two measurements of accuracy
 * @param limitSeconds after which training is stopped
 */
record Recipe(int images, int width, int epochs, int batch, double rate, long every, double limitSeconds)
        implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Returns the images behind one update of the weights. */
    int updateBatch(Setup setup) {
        return setup.isSynchronous() ? batch : Math.max(1, batch / setup.workers());
    }

    /** Returns the greatest rate of an update: the noise of Adam's updates falls with the root of the batch. */
    double updateRate(Setup setup) {
        return rate * Math.sqrt((double) updateBatch(setup) / batch);
    }
}
