package dev.starling.study;

import java.util.List;

/**
 * The record of a rank's training.
 *
 * @param images that it trained on or, where ranks share steps, that all did
 * @param seconds from the start of its first step to the end of its last
 * @param marks weights during the training; only rank 0 has any
 */
record Track(long images, double seconds, List<Mark> marks) {
    /**
     * Weights at one time of the training.
     *
     * @param file of the weights, in the folder of the track
     * @param images that all workers had trained on
     * @param seconds since the start of the first step
     */
    record Mark(String file, long images, double seconds) { }
}
