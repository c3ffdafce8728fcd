package dev.starling.jmh.cluster;

import java.util.Locale;

/**
 * How one of ours compares with a peer.
 *
 * @param ours who of us, and which of its ways was the fastest
 * @param ratio above 1 if ours is faster
 * @param how the peer's fastest way
 */
record Finding(Measure measure, int world, long bytes, Name ours, double ourValue, String peer, double peerValue,
        double ratio, String how) {
    /** A party and its way. */
    record Name(String party, String way) {
        String name() {
            return way.isEmpty() ? party : party + " " + way;
        }
    }

    String json() {
        return String.format(Locale.ROOT, "{\"case\":\"%s\",\"processes\":%d,\"bytes\":%d,\"unit\":\"%s\","
            + "\"who\":\"%s\",\"ours\":%.3f,\"peer\":\"%s\",\"theirs\":%.3f,\"ratio\":%.3f,\"how\":\"%s\"}",
            measure.label(), world, bytes, measure.unit(), ours.name(), ourValue, peer, peerValue, ratio, how);
    }
}
