package dev.starling.jmh.cluster;

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
}
