package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.cudnnGetVersion;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;

/**
 * Attention by the graph interface of NVIDIA's cuDNN 9, on tensor cores, in bf16 and f16. Gradients have the same bits
 * every time where that takes no more than 256 MiB to work in, which are lent by the device's allocator for the time of
 * a call, and the property {@code starling.cuda.nondeterministic} is not true; else those of queries are summed in
 * whatever order.
 */
public final class CudnnAttender implements Attender {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    /** The first version whose engines take infinite masks and clear their memory themselves. */
    static final long LEAST_VERSION = 91000;
    private static final String INSTEAD = "kernels of our own attend, which are slower";
    private static final GraphPlan.Demands SAME_BITS = new GraphPlan.Demands(true, false, 1L << 28);
    private static final GraphPlan.Demands ANY_BITS = new GraphPlan.Demands(false, false, 1L << 28);

    private final CudnnGraphs graphs;
    private final boolean anyBits = Boolean.getBoolean("starling.cuda.nondeterministic");

    private record Backward(AttentionCall call, boolean exact) { }

    private CudnnAttender(CudnnGraphs graphs) {
        this.graphs = graphs;
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed or too old. */
    public static Attender open(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        try {
            long version = cudnnGetVersion();
            if (version < LEAST_VERSION) {
                LOG.log(System.Logger.Level.WARNING, "cuDNN {0} is too old for attention: {1}; {2}",
                        CudnnVersion.words(version), INSTEAD, Redist.remedy("cuDNN 9.10 or newer", "-cudnn"));
                return null;
            }
            return new CudnnAttender(new CudnnGraphs(gpu, stream, memory, INSTEAD));
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN does not load, " + INSTEAD + ": "
                    + Redist.remedy("cuDNN 9.10 or newer for CUDA 13", "-cudnn"), e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    @Override
    public boolean forward(AttentionCall call, long q, long k, long v, long y, long logs) {
        return graphs.run(call, SAME_BITS, () -> AttentionGraph.forward(call), q, k, v, y, logs);
    }

    @Override
    public boolean backward(AttentionCall call, long q, long k, long v, long y, long logs, long g, long dq, long dk,
            long dv, long sums, long slopes) {
        for (boolean exact : new boolean[] {!anyBits, anyBits}) {
            long[] operands = exact ? new long[] {q, k, v, y, logs, g, dq, dk, dv, sums}
                    : new long[] {q, k, v, y, logs, g, dq, dk, dv, sums, slopes};
            if (graphs.run(new Backward(call, exact), exact ? SAME_BITS : ANY_BITS,
                    () -> AttentionGraph.backward(call, exact), operands)) {
                return true;
            }
        }
        return false;
    }
}
