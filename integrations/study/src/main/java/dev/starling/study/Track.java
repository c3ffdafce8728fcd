package dev.starling.study;

import java.util.List;

/**
 * What a rank did.
 *
 * @param images that it trained on or, where ranks share steps, that all did
 * @param seconds from its first step's begin to its last step's end
 * @param marks its weights on the way; none but rank 0 has any
 */
record Track(long images, double seconds, List<Mark> marks) {
    /**
     * Weights at a moment of the training.
     *
     * @param file in which they are, beside the track
     * @param images that all workers had trained on
     * @param seconds since the first step's begin
     */
    record Mark(String file, long images, double seconds) { }
}
