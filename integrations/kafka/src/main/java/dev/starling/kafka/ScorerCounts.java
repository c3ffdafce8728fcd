package dev.starling.kafka;

/**
 * What a scorer has done since it was opened; only what was committed counts.
 *
 * @param scored results sent
 * @param dead records sent to the dead letters
 * @param refused announcements of models that were refused
 * @param batches transactions committed
 * @param aborted transactions aborted and begun again
 */
public record ScorerCounts(long scored, long dead, long refused, long batches, long aborted) {
}
