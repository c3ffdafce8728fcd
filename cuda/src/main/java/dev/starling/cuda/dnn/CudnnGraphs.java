package dev.starling.cuda.dnn;

import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_BAD_PARAM;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_INTERNAL_ERROR;
import static org.bytedeco.cuda.global.cudnn.CUDNN_STATUS_SUCCESS;
import static org.bytedeco.cuda.global.cudnn.cudnnCreate;
import static org.bytedeco.cuda.global.cudnn.cudnnSetStream;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.NvidiaGpu;
import dev.starling.tensor.spi.Allocator;
import dev.starling.tensor.spi.Block;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.bytedeco.cuda.cudnn.cudnnContext;

/**
 * What cuDNN 9 computes on a stream by its graph interface. A graph is planned when it is first wanted; one that the
 * library has no engine for is not asked for again. Of the engines that suit, the one is taken that the library expects
 * to be the fastest; if the property {@code starling.cuda.autotune} is true, the fastest of the first eight, by timing
 * them when the graph is first run. What engines work in is lent for the time of a call. Safe for use by several
 * threads.
 */
final class CudnnGraphs {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final int MOST_TRIES = 8;
    private static final int TIMED_RUNS = 3;

    private final Gpu gpu;
    private final Gpu.Stream stream;
    private final Allocator memory;
    private final GraphPlan.Target target;
    private final int tries = Boolean.getBoolean("starling.cuda.autotune") ? MOST_TRIES : 1;
    /** By call: none where the library has none, several that are to be timed. */
    private final Map<Record, List<GraphPlan>> plans = new HashMap<>();

    /** Starts the library, or throws {@link LinkageError} or {@link GpuException}. */
    CudnnGraphs(Gpu gpu, Gpu.Stream stream, Allocator memory) {
        this.gpu = gpu;
        this.stream = stream;
        this.memory = memory;
        gpu.enter();
        cudnnContext handle = new cudnnContext();
        Descriptor.check(cudnnCreate(handle), "cudnnCreate");
        Descriptor.check(cudnnSetStream(handle, NvidiaGpu.handle(stream)), "cudnnSetStream");
        target = new GraphPlan.Target(handle, null);
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
        List<GraphPlan> candidates = plans.get(call);
        if (candidates == null) {
            candidates = plan(call, demands, graph.get());
            plans.put(call, candidates);
        }
        if (candidates.size() > 1) {
            candidates = fastest(candidates, operands);
            plans.put(call, candidates);
        }
        if (candidates.isEmpty()) {
            return false;
        }
        int status = run(candidates.getFirst(), operands);
        if (isRefusal(status)) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses what it offered, status {0}: a kernel of our own "
                    + "computes {1} from now on", status, call);
            plans.put(call, List.of());
            return false;
        }
        Descriptor.check(status, "cudnnBackendExecute");
        return true;
    }

    private List<GraphPlan> plan(Record call, GraphPlan.Demands demands, Graph graph) {
        try {
            List<GraphPlan> found = GraphPlan.of(target, graph, demands, tries);
            if (found.isEmpty()) {
                LOG.log(System.Logger.Level.DEBUG, "cuDNN has no engine for {0}", call);
            }
            return found;
        } catch (GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN refuses " + call + ", a kernel of our own computes it", e);
            return List.of();
        }
    }

    /** Times plans, each of which computes the results once more. */
    private List<GraphPlan> fastest(List<GraphPlan> candidates, long... operands) {
        GraphPlan best = null;
        long least = Long.MAX_VALUE;
        for (GraphPlan plan : candidates) {
            if (run(plan, operands) == CUDNN_STATUS_SUCCESS) {
                gpu.synchronize(stream);
                long begin = System.nanoTime();
                for (int i = 0; i < TIMED_RUNS; i++) {
                    run(plan, operands);
                }
                gpu.synchronize(stream);
                long taken = System.nanoTime() - begin;
                if (taken < least) {
                    least = taken;
                    best = plan;
                }
            }
        }
        return best == null ? List.of() : List.of(best);
    }

    private static boolean isRefusal(int status) {
        return status >= CUDNN_STATUS_BAD_PARAM && status < CUDNN_STATUS_INTERNAL_ERROR;
    }

    private int run(GraphPlan plan, long... operands) {
        // What the block is lent for next is queued behind this.
        Block block = plan.workspaceBytes() == 0 ? null : memory.allocate(plan.workspaceBytes());
        try {
            return plan.run(block == null ? 0 : block.address(), operands);
        } finally {
            if (block != null) {
                memory.free(block);
            }
        }
    }
}
