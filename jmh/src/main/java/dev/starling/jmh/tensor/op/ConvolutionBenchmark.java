package dev.starling.jmh.tensor.op;

import dev.starling.jmh.PeerBenchmark;
import dev.starling.jmh.Workload;
import org.openjdk.jmh.annotations.Param;

/** 3×3 convolutions of 64 samples, forward and backward. */
public class ConvolutionBenchmark extends PeerBenchmark {
    @Param({"32", "64", "128"})
    int channels;

    @Param({"8", "16", "32"})
    int size;

    @Override
    protected Workload workload() {
        return new Workload.Convolution(64, channels, channels, size, 3, 1, Workload.Format.F32);
    }
}
