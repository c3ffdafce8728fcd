package dev.starling.kafka;

/**
 * The work of a scorer since it was opened; only committed transactions count.
 *
 * @param scored results sent
 * @param dead records sent to the dead letters
 * @param refused announcements of models that were refused
 * @param batches transactions committed
 * @param aborted transactions aborted and retried
 */
public record ScorerCounts(long scored, long dead, long refused, long batches, long aborted) {
}
