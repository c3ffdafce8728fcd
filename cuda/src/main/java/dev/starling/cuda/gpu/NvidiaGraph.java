package dev.starling.cuda.gpu;

import static org.bytedeco.cuda.global.cudart.cuGraphDestroy;
import static org.bytedeco.cuda.global.cudart.cuGraphExecDestroy;
import static org.bytedeco.cuda.global.cudart.cuGraphExecKernelNodeSetParams;
import static org.bytedeco.cuda.global.cudart.cuGraphInstantiate;
import static org.bytedeco.cuda.global.cudart.cuGraphLaunch;
import static org.bytedeco.cuda.global.cudart.cuStreamGetCaptureInfo;

import java.lang.foreign.MemorySegment;
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

/** A CUDA graph, taken down from a stream, whose kernels are known by the order of their launches. */
final class NvidiaGraph implements Gpu.Graph {
    private final NvidiaGpu gpu;
    private final Gpu.Stream stream;
    private final List<Kernel> kernels = new ArrayList<>();
    private final CUgraphExec_st executable = new CUgraphExec_st();
    private CUgraph_st graph;

    /** A node, and all that is to be said of it but its arguments. */
    private record Kernel(CUgraphNode_st node, CUDA_KERNEL_NODE_PARAMS_v2 parameters) { }

    /** The driver's handle of a node. */
    private static final class Node extends CUgraphNode_st {
        Node(long handle) {
            super((Pointer) null);
            address = handle;
        }
    }

    /** Begins a graph of what is queued on {@code stream}. */
    NvidiaGraph(NvidiaGpu gpu, Gpu.Stream stream) {
        this.gpu = gpu;
        this.stream = stream;
    }

    boolean isOf(Gpu.Stream other) {
        return stream == other;
    }

    /** Notes the kernel that was just launched: what the stream's next node would depend on. */
    void add(CUfunc_st function, Gpu.Grid grid, CUstream_st on) {
        try (IntPointer status = new IntPointer(1); LongPointer id = new LongPointer(1);
                PointerPointer<Pointer> nodes = new PointerPointer<>(1); SizeTPointer count = new SizeTPointer(1)) {
            NvidiaGpu.check(cuStreamGetCaptureInfo(on, status, id, null, nodes, (PointerPointer<?>) null, count),
                    "cuStreamGetCaptureInfo");
            if (count.get() != 1) {
                throw new GpuException("a launch left " + count.get() + " nodes for the next one to wait for, not 1");
            }
            long handle = MemorySegment.ofAddress(nodes.get(0).address()).reinterpret(ValueLayout.JAVA_LONG.byteSize())
                    .get(ValueLayout.JAVA_LONG, 0);
            CUDA_KERNEL_NODE_PARAMS_v2 parameters = new CUDA_KERNEL_NODE_PARAMS_v2();
            Pointer.memset(parameters, 0, parameters.sizeof());
            parameters.func(function).gridDimX(grid.x()).gridDimY(grid.y()).gridDimZ(grid.z())
                    .blockDimX(grid.threads()).blockDimY(1).blockDimZ(1).sharedMemBytes(grid.sharedBytes());
            kernels.add(new Kernel(new Node(handle), parameters));
        }
    }

    /** Makes the graph ready for its runs. */
    void instantiate(CUgraph_st taken) {
        graph = taken;
        NvidiaGpu.check(cuGraphInstantiate(executable, graph, 0), "cuGraphInstantiate");
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
        gpu.enter();
        NvidiaGpu.check(cuGraphLaunch(executable, NvidiaGpu.of(on)), "cuGraphLaunch");
    }

    @Override
    public void close() {
        gpu.enter();
        gpu.synchronize(stream);
        NvidiaGpu.check(cuGraphExecDestroy(executable), "cuGraphExecDestroy");
        NvidiaGpu.check(cuGraphDestroy(graph), "cuGraphDestroy");
    }
}
