package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Softmax of short and long rows. */
public class SoftmaxBenchmark extends PeerBenchmark {
    @Param({"10", "1024", "32768"})
    int columns;

    @Override
    protected Workload workload() {
        return new Workload.Softmax(1024, columns);
    }
}
