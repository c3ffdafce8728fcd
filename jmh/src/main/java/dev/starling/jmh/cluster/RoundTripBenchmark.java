package dev.starling.jmh.cluster;

import java.nio.file.Path;

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

    @Override
    Member join(int rank, Path directory) throws Exception {
        return new TransportMember(route.config(), rank, directory);
    }
}
