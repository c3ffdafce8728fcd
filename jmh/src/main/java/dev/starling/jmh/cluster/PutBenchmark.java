package dev.starling.jmh.cluster;

import java.nio.file.Path;

/** Eight bytes written into the memory of a peer, which reads them and writes as many back. */
public class PutBenchmark extends MemberBenchmark {
    @Override
    Measure measure() {
        return Measure.PUT;
    }

    @Override
    int bytes() {
        return 8;
    }

    @Override
    Member join(int rank, Path directory) throws Exception {
        return new TransportMember(route.config(), rank, directory);
    }
}
