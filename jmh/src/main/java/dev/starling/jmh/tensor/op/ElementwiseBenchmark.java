package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Elementwise functions, in cache and beyond it. */
public class ElementwiseBenchmark extends PeerBenchmark {
    @Param({"RELU", "ADD", "GELU"})
    Workload.Function function;

    @Param({"1024", "1048576", "16777216"})
    int count;

    @Override
    protected Workload workload() {
        return new Workload.Elementwise(function, count);
    }
}
