package dev.starling.jmh.cluster;

import java.nio.file.Path;
import org.openjdk.jmh.annotations.Param;

/** An all-reduce of floats between two ranks, in place. */
public class AllReduceBenchmark extends MemberBenchmark {
    /** Size of the data. */
    @Param({"1024", "1048576"})
    int bytes;

    @Override
    Measure measure() {
        return Measure.ALL_REDUCE;
    }

    @Override
    int bytes() {
        return bytes;
    }

    @Override
    Member join(int rank, Path directory) throws Exception {
        return new StarlingMember(route.config(), rank, 2, directory);
    }
}
