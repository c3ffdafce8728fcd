package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Sums along either dimension. */
public class ReductionBenchmark extends PeerBenchmark {
    @Param({"256", "4096"})
    int size;

    @Param({"0", "1"})
    int axis;

    @Override
    protected Workload workload() {
        return new Workload.Reduction(size, size, axis);
    }
}
