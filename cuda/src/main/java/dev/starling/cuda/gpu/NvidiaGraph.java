package dev.starling.cuda.gpu;

import static org.bytedeco.cuda.global.cudart.cuGraphDestroy;
import static org.bytedeco.cuda.global.cudart.cuGraphExecDestroy;
import static org.bytedeco.cuda.global.cudart.cuGraphExecKernelNodeSetParams;
import static org.bytedeco.cuda.global.cudart.cuGraphInstantiate;
import static org.bytedeco.cuda.global.cudart.cuGraphLaunch;
import static org.bytedeco.cuda.global.cudart.cuStreamGetCaptureInfo;

import java.lang.foreign.Arena;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.List;
import org.bytedeco.cuda.cudart.CUDA_KERNEL_NODE_PARAMS_v2;
import org.bytedeco.cuda.cudart.CUfunc_st;
import org.bytedeco.cuda.cudart.CUgraphExec_st;
import org.bytedeco.cuda.cudart.CUgraphNode_st;
import org.bytedeco.cuda.cudart.CUgraph_st;
import org.bytedeco.cuda.cudart.CUstream_st;
import org.bytedeco.javacpp.IntPointer;
import org.bytedeco.javacpp.LongPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.PointerPointer;
import org.bytedeco.javacpp.SizeTPointer;

/** A CUDA graph captured from a stream. Its kernels are numbered in the order of their launches. */
final class NvidiaGraph implements Gpu.Graph {
    private final NvidiaGpu gpu;
    private final Gpu.Stream stream;
    private final List<Kernel> kernels = new ArrayList<>();
    private final CUgraphExec_st executable = new CUgraphExec_st();
    /** Memory of the kernels' parameters. */
    private final Arena memory = Arena.ofAuto();
    /** Set by {@link #instantiate}. */
    @SuppressWarnings("NullAway.Init")
    private CUgraph_st graph;

    /** A graph node with its launch parameters, except the arguments. */
    private record Kernel(CUgraphNode_st node, CUDA_KERNEL_NODE_PARAMS_v2 parameters) { }

    /** The driver's handle of a node. */
    private static final class Node extends CUgraphNode_st {
        Node(long handle) {
            super((Pointer) null);
            address = handle;
        }
    }

    /** Starts an empty graph for a capture of {@code stream}. */
    NvidiaGraph(NvidiaGpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
    }

    boolean isOf(Gpu.Stream other) {
        return stream == other;
    }

    /** Adds the kernel launched last: the node that the stream's next node would depend on. */
    void add(CUfunc_st function, Gpu.Grid grid, CUstream_st on) {
        try (Arena arena = Arena.ofConfined()) {
            IntPointer status = new IntPointer(number(arena));
            LongPointer id = new LongPointer(number(arena));
            PointerPointer<Pointer> nodes = new PointerPointer<>(number(arena));
            SizeTPointer count = new SizeTPointer(number(arena));
            // The query fails for a dependency that has edge data unless there is room for that data.
            PointerPointer<Pointer> edges = new PointerPointer<>(number(arena));
            // The binding makes the pointer point to the driver's array of nodes.
            NvidiaGpu.check(cuStreamGetCaptureInfo(on, status, id, null, nodes, edges, count),
                    "cuStreamGetCaptureInfo");
            if (count.get() != 1) {
                throw new GpuException("a captured launch left " + count.get()
                        + " nodes for the next one to depend on, expected 1");
            }
            CUDA_KERNEL_NODE_PARAMS_v2 parameters = new CUDA_KERNEL_NODE_PARAMS_v2(RawPointer.of(memory.allocate(
                    new CUDA_KERNEL_NODE_PARAMS_v2(new RawPointer()).sizeof(), Long.BYTES)));
            parameters.func(function).gridDimX(grid.x()).gridDimY(grid.y()).gridDimZ(grid.z())
                    .blockDimX(grid.threads()).blockDimY(1).blockDimZ(1);
            kernels.add(new Kernel(new Node(nodes.get(0).address()), parameters));
        }
    }

    private static RawPointer number(Arena arena) {
        return RawPointer.of(arena.allocate(ValueLayout.JAVA_LONG));
    }

    /** Instantiates the captured graph; destroys it if that fails. */
    void instantiate(CUgraph_st captured) {
        graph = captured;
        try {
            gpu.request(() -> cuGraphInstantiate(executable, graph, 0), "cuGraphInstantiate");
        } catch (GpuException e) {
            cuGraphDestroy(graph);
            throw e;
        }
    }

    @Override
    public void arguments(int kernel, long arguments, int bytes) {
        gpu.enter();
        Kernel k = kernels.get(kernel);
        k.parameters.extra(NvidiaGpu.BUFFER.get().of(arguments, bytes));
        NvidiaGpu.check(cuGraphExecKernelNodeSetParams(executable, k.node, k.parameters),
                "cuGraphExecKernelNodeSetParams");
    }

    @Override
    public void launch(Gpu.Stream on) {
        gpu.request(() -> cuGraphLaunch(executable, NvidiaGpu.of(on)), "cuGraphLaunch");
    }

    @Override
    public void close() {
        try {
            gpu.synchronize(stream);
        } finally {
            gpu.enter();
            int error = cuGraphExecDestroy(executable);
            NvidiaGpu.check(cuGraphDestroy(graph), "cuGraphDestroy");
            NvidiaGpu.check(error, "cuGraphExecDestroy");
        }
    }
}
