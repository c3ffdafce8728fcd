package dev.starling.cuda.dnn;

import dev.starling.cuda.dnn.Graph.Function;
import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Pass;
import dev.starling.tensor.DType;

/**
 * Convolutions by the graph interface of NVIDIA's cuDNN 9, channels last, with bias and ReLU in the same kernel, on
 * tensor cores for 16-bit types, which accumulate in f32. f32 is multiplied in full precision unless the property
 * {@code starling.cuda.tf32} is true. The engine of a call is the one that the library expects to be fastest among the
 * deterministic ones, or among all if the property {@code starling.cuda.nondeterministic} is true.
 */
public final class CudnnConvolution implements ConvolutionLibrary {
    private static final String FALLBACK = "Starling's own kernels compute convolutions, which are slower";
    private static final long MAX_WORKSPACE_BYTES = 1L << 30;

    private final Cudnn cudnn;
    private CudnnGraphs graphs;
    private final boolean tf32 = Boolean.getBoolean("starling.cuda.tf32");
    private final boolean deterministic = !Boolean.getBoolean("starling.cuda.nondeterministic");

    /** A convolution or one of its gradients. */
    record Work(ConvolutionCall call, Pass pass, boolean biased, boolean relu) { }

    /** Makes a wrapper; the library is opened at its first use. */
    public CudnnConvolution(Cudnn cudnn) {
        this.cudnn = cudnn;
    }

    @Override
    public boolean supports(DType type) {
        return (type == DType.F32 || type == DType.BF16 || type == DType.F16) && cudnn.isOpen(FALLBACK);
    }

    @Override
    public boolean forward(ConvolutionCall call, long x, long weight, long bias, boolean relu, long y) {
        long[] operands = bias == 0 ? new long[] {x, weight, y} : new long[] {x, weight, y, bias};
        return run(new Work(call, Pass.FORWARD, bias != 0, relu), operands);
    }

    @Override
    public boolean inputGradient(ConvolutionCall call, long g, long weight, long x) {
        return run(new Work(call, Pass.INPUT_GRADIENT, false, false), x, weight, g);
    }

    @Override
    public boolean weightGradient(ConvolutionCall call, long x, long g, long weight) {
        return run(new Work(call, Pass.WEIGHT_GRADIENT, false, false), x, weight, g);
    }

    private boolean run(Work work, long... operands) {
        return graphs().run(work, constraints(work.call.type() == DType.F32 && !tf32, deterministic), () -> graph(work),
                operands);
    }

    private synchronized CudnnGraphs graphs() {
        if (graphs == null) {
            graphs = new CudnnGraphs(cudnn, FALLBACK);
        }
        return graphs;
    }

    static GraphPlan.Constraints constraints(boolean fullPrecision, boolean deterministic) {
        return new GraphPlan.Constraints(deterministic, fullPrecision, MAX_WORKSPACE_BYTES);
    }

    /** Returns the graph of one pass: of images, weight, results and the bias, if there is one. */
    static Graph graph(Work work) {
        ConvolutionCall c = work.call;
        Graph graph = new Graph();
        Operand x = memory(graph, c, c.images(), c.channels(), c.height(), c.width());
        Operand weight = memory(graph, c, c.outputs(), c.channels() / c.groups(), c.kernelHeight(), c.kernelWidth());
        Operand y = memory(graph, c, c.images(), c.outputs(), c.outHeight(), c.outWidth());
        Operand sum = work.biased || work.relu ? graph.virtual(DType.F32, y.sizes(), y.strides()) : y;
        graph.add(new Graph.Convolution(work.pass, new long[] {c.paddingHeight(), c.paddingWidth()},
                new long[] {c.strideHeight(), c.strideWidth()}, new long[] {c.dilationHeight(), c.dilationWidth()}, x,
                weight, sum));
        if (work.biased) {
            Operand bias = memory(graph, c, 1, c.outputs(), 1, 1);
            sum = graph.apply(Function.ADD, sum, bias, null,
                    work.relu ? graph.virtual(DType.F32, y.sizes(), y.strides()) : y);
        }
        if (work.relu) {
            graph.apply(Function.RELU, sum, null, null, y);
        }
        return graph;
    }

    private static Operand memory(Graph graph, ConvolutionCall call, long... sizes) {
        return graph.memory(call.type(), sizes, Graph.channelsLast(sizes));
    }
}
