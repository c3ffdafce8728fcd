package dev.starling.kafka;

import java.util.Map;

/**
 * The counts and measurements of a learner. Each record counts in exactly one of {@code trained}, {@code heldOut} and
 * {@code refused}.
 *
 * @param records received from the topic
 * @param trained records that changed the weights
 * @param heldOut records that were held out for measurements
 * @param refused records that could not be decoded
 * @param checksum sum over all records of a hash of partition, offset and value; independent of their order
 * @param loss of the model on the window of held-out rows when last measured; NaN before
 * @param metrics on the same rows, by name
 * @param servedLoss of the served version on the same rows; NaN if there is none or this loss cannot measure it
 * @param published the number of the last version that this learner published; -1 if it has published none
 */
public record LearnerReport(long records, long trained, long heldOut, long refused, long checksum, double loss,
        Map<String, Double> metrics, double servedLoss, long published) {
}
