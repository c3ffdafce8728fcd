package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** Layer normalisation of short and long rows. */
public class NormalizationBenchmark extends PeerBenchmark {
    @Param({"64", "1024", "8192"})
    int columns;

    @Override
    protected Workload workload() {
        return new Workload.LayerNorm(1024, columns);
    }
}
