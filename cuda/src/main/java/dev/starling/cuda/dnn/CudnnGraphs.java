package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.bytedeco.cuda.cudnn.cudnnContext;

/**
 * What cuDNN 9 computes on a stream by its graph interface. A graph is planned when it is first wanted; one that the
 * library has no engine for is not asked for again. What engines work in is lent for the time of a call. Safe for use
 * by several threads.
 */
final class CudnnGraphs {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");

    private final Gpu gpu;
    private final Allocator memory;
    private final cudnnContext handle = new cudnnContext();
    private final Map<Object, Optional<GraphPlan>> plans = new HashMap<>();

    /** Starts the library, or throws {@link LinkageError} or {@link GpuException}. */
    CudnnGraphs(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        this.gpu = gpu;
        this.memory = memory;
        gpu.enter();
        Descriptor.check(cudnnCreate(handle), "cudnnCreate");
        Descriptor.check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
    }

    /**
     * Queues the work of a graph and returns whether the library could; where not, nothing was queued.
     *
     * @param call what the graph is made for; equal ones have equal graphs
     * @param demands on the engine, the same for equal calls
     * @param operands the addresses of what the graph has in memory, in the order of its operands
     */
    synchronized boolean run(Record call, GraphPlan.Demands demands, Supplier<Graph> graph, long... operands) {
        gpu.enter();
        Optional<GraphPlan> plan = plans.get(call);
        if (plan == null) {
            plan = plan(call, demands, graph.get());
            plans.put(call, plan);
        }
        return plan.isPresent() && run(call, plan.get(), operands);
    }

    private Optional<GraphPlan> plan(Record call, GraphPlan.Demands demands, Graph graph) {
        try {
            GraphPlan plan = GraphPlan.of(handle, graph, demands);
            if (plan == null) {
                LOG.log(System.Logger.Level.DEBUG, "cuDNN has no engine for {0}", call);
            }
            return Optional.ofNullable(plan);
        } catch (GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses " + call + ", a kernel of our own computes it", e);
            return Optional.empty();
        }
    }

    private boolean run(Record call, GraphPlan plan, long... operands) {
        // What the block is lent for next is queued behind this.
        Block block = plan.workspaceBytes() == 0 ? null : memory.allocate(plan.workspaceBytes());
        int status;
        try {
            status = plan.run(block == null ? 0 : block.address(), operands);
        } finally {
            if (block != null) {
                memory.free(block);
            }
        }
        if (status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses what it offered, status {0}: a kernel of our own "
                    + "computes {1} from now on", status, call);
            plans.put(call, Optional.empty());
            return false;
        }
        Descriptor.check(status, "cudnnBackendExecute");
        return true;
    }
}
