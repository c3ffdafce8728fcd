package dev.starling.jmh;

/**
 * How we did beside a peer.
 *
 * @param workload what was done
 * @param peer who else did it
 * @param how the peer's fastest way: variant and environment
 * @param ours our speed, in the workload's unit: median of all runs
 * @param theirs the peer's speed
 * @param ratio our speed over theirs: median over pairs of runs that followed each other
 */
record Comparison(Workload workload, Contender peer, String how, double ours, double theirs, double ratio) {
}
