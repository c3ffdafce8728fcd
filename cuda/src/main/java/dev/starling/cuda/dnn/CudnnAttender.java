package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnGetVersion;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.HashMap;
import java.util.Map;
import org.bytedeco.cuda.cudnn.cudnnContext;

/**
 * Attention by the graph interface of NVIDIA's cuDNN 9, on tensor cores, in bf16 and f16. Gradients have the same bits
 * every time where that takes no more memory than {@value #MOST_WORKSPACE_BYTES} bytes to work in, which are lent by
 * the device's allocator for the time of a call, and the property {@code starling.cuda.nondeterministic} is not true;
 * else those of queries are summed in whatever order.
 */
public final class CudnnAttender implements Attender {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    /** The first version whose engines take infinite masks and clear their memory themselves. */
    private static final long LEAST_VERSION = 91000;
    private static final long MOST_WORKSPACE_BYTES = 1L << 28;

    private final Gpu gpu;
    private final Allocator memory;
    private final boolean anyBits = Boolean.getBoolean("starling.cuda.nondeterministic");
    private final cudnnContext handle = new cudnnContext();
    private final Map<AttentionCall, Way> ways = new HashMap<>();

    /** How a call is computed: {@code plan} is {@code null} where the library cannot. */
    private record Way(GraphPlan plan, boolean exact) { }

    private CudnnAttender(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        this.gpu = gpu;
        this.memory = memory;
        gpu.enter();
        if (cudnnCreate(handle) != CUDNN_STATUS_SUCCESS
                || cudnnSetStream(handle, NvidiaGpu.handle(stream)) != CUDNN_STATUS_SUCCESS) {
            throw new GpuException("cuDNN does not start");
        }
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed or too old. */
    public static Attender open(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        try {
            return cudnnGetVersion() < LEAST_VERSION ? null : new CudnnAttender(gpu, stream, memory);
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING,
                    "cuDNN does not load, attention will be slow: install cuDNN 9.10 or newer for CUDA 13", e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type) {
        return type == DType.BF16 || type == DType.F16;
    }

    @Override
    public synchronized boolean forward(AttentionCall call, long q, long k, long v, long y, long logs) {
        return run(way(call).plan, q, k, v, y, logs);
    }

    @Override
    public synchronized boolean backward(AttentionCall call, long q, long k, long v, long y, long logs, long g,
            long dq, long dk, long dv, long sums, long slopes) {
        Way way = way(call);
        return way.exact ? run(way.plan, q, k, v, y, logs, g, dq, dk, dv, sums)
                : run(way.plan, q, k, v, y, logs, g, dq, dk, dv, sums, slopes);
    }

    private Way way(AttentionCall call) {
        gpu.enter();
        Way way = ways.get(call);
        if (way == null) {
            try {
                way = call.g() == null ? new Way(plan(AttentionGraph.forward(call)), true) : backward(call);
            } catch (GpuException e) {
                LOG.log(System.Logger.Level.WARNING, "cuDNN refuses " + call + ": a kernel of our own attends", e);
                way = new Way(null, true);
            }
            ways.put(call, way);
        }
        return way;
    }

    private Way backward(AttentionCall call) {
        GraphPlan preferred = plan(AttentionGraph.backward(call, !anyBits));
        return preferred != null ? new Way(preferred, !anyBits)
                : new Way(plan(AttentionGraph.backward(call, anyBits)), anyBits);
    }

    private GraphPlan plan(Graph graph) {
        return GraphPlan.of(handle, graph, MOST_WORKSPACE_BYTES);
    }

    private boolean run(GraphPlan plan, long... operands) {
        if (plan == null) {
            return false;
        }
        // What the block is lent for next is queued behind this.
        Block block = plan.workspaceBytes() == 0 ? null : memory.allocate(plan.workspaceBytes());
        try {
            plan.run(block == null ? 0 : block.address(), operands);
        } finally {
            if (block != null) {
                memory.free(block);
            }
        }
        return true;
    }
}
