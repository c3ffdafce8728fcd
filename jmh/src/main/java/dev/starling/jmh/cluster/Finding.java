package dev.starling.jmh.cluster;

import java.util.Locale;

/**
 * The comparison of one of Starling's implementations with a peer.
 *
 * @param ours Starling's implementation, and its fastest variant
 * @param ratio above 1 if Starling is faster
 * @param peerVariant the peer's fastest variant
 */
record Finding(Measure measure, int world, long bytes, Name ours, double ourValue, String peer, double peerValue,
        double ratio, String peerVariant) {
    /** An implementation and its variant. */
    record Name(String implementation, String variant) {
        String name() {
            return variant.isEmpty() ? implementation : implementation + " " + variant;
        }
    }

    String json() {
        return String.format(Locale.ROOT, "{\"case\":\"%s\",\"processes\":%d,\"bytes\":%d,\"unit\":\"%s\","
            + "\"implementation\":\"%s\",\"ours\":%.3f,\"peer\":\"%s\",\"theirs\":%.3f,\"ratio\":%.3f,\"how\":\"%s\"}",
            measure.label(), world, bytes, measure.unit(), ours.name(), ourValue, peer, peerValue, ratio, peerVariant);
    }
}
