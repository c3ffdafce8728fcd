package dev.starling.jmh.autograd;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** The cost of recording an operation. */
public class TapeBenchmark extends PeerBenchmark {
    @Param({"16", "1024"})
    int elements;

    @Override
    protected Workload workload() {
        return new Workload.AddChain(1000, elements);
    }
}
