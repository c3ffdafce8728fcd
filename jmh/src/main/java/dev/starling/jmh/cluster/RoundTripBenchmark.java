package dev.starling.jmh.cluster;

/** A message of 32 bytes to a peer, and back. */
public class RoundTripBenchmark extends MemberBenchmark {
    @Override
    Measure measure() {
        return Measure.ROUND_TRIP;
    }

    @Override
    int bytes() {
        return 32;
    }
}
