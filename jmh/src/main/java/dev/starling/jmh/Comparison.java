package dev.starling.jmh;

/**
 * The result of a comparison with a peer.
 *
 * @param workload the workload
 * @param peer the peer
 * @param peerVariant the peer's fastest variant and environment
 * @param ours Starling's speed, in the workload's unit: median of all runs
 * @param theirs the peer's speed
 * @param ratio Starling's speed over the peer's: median over pairs of successive runs; not finite if Starling's time
 *     was 0, as the time to the steady speed is if the first runs have it
 */
record Comparison(Workload workload, Contender peer, String peerVariant, double ours, double theirs, double ratio) {
}
