package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Products of square matrices. */
public class ContractionBenchmark extends PeerBenchmark {
    @Param({"64", "256", "1024", "2048"})
    int size;

    @Override
    protected Workload workload() {
        return new Workload.Matmul(size, Workload.Format.F32);
    }
}
