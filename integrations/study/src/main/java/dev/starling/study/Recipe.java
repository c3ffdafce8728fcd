package dev.starling.study;

import java.io.Serializable;

/**
 * The configuration that all rows share.
 *
 * @param images to train on
 * @param width channels of the network's first convolution
 * @param epochs passes over the images
 * @param batch images in a step of all workers; if workers do not share steps, each has an equal part of it
 * @param rate maximum of Adam's one-cycle schedule at that batch
 * @param every number of images, seen by all workers, between two measurements of accuracy
 * @param limitSeconds limit of the training time
 */
record Recipe(int images, int width, int epochs, int batch, double rate, long every, double limitSeconds)
        implements Serializable {
    private static final long serialVersionUID = 1L;

    /** Returns the number of images of one update of the weights. */
    int updateBatch(Setup setup) {
        return setup.isSynchronous() ? batch : Math.max(1, batch / setup.workers());
    }

    /** Returns the maximum rate of an update: the noise of Adam's updates falls with the root of the batch. */
    double updateRate(Setup setup) {
        return rate * Math.sqrt((double) updateBatch(setup) / batch);
    }
}
