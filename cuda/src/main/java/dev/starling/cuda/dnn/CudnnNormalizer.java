package dev.starling.cuda.dnn;

import dev.starling.cuda.dnn.Graph.Function;
import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.cuda.gpu.Redist;
import dev.starling.cuda.memory.Workspaces;
import dev.starling.tensor.DType;

/**
 * Batch and layer normalisation by the graph interface of NVIDIA's cuDNN 9, which compiles kernels when a shape is
 * first met; those of batches keep what they have read on the chip where it fits. It has engines for channels that fill
 * 16 bytes.
 */
public final class CudnnNormalizer implements Normalizer {
    private static final System.Logger LOG = System.getLogger("dev.starling.cuda");
    private static final String INSTEAD = "kernels of our own normalise";

    private final CudnnGraphs graphs;
    private final GraphPlan.Demands demands =
            new GraphPlan.Demands(!Boolean.getBoolean("starling.cuda.nondeterministic"), false, 1L << 28);

    private record Backward(NormalizationCall call) { }

    private CudnnNormalizer(CudnnGraphs graphs) {
        this.graphs = graphs;
    }

    /** Returns the library for the work of a stream, or {@code null} where it is not installed. */
    public static Normalizer open(Gpu gpu, Gpu.Stream stream, Workspaces memory) {
        try {
            return new CudnnNormalizer(new CudnnGraphs(gpu, stream, memory, INSTEAD));
        } catch (LinkageError | GpuException e) {
            LOG.log(System.Logger.Level.WARNING, "cuDNN does not load, " + INSTEAD + ": "
                    + Redist.remedy("cuDNN 9 for CUDA 13", "-cudnn"), e);
            return null;
        }
    }

    @Override
    public boolean takes(DType type, DType weights, boolean batch, long channels) {
        return weights == DType.F32 && (type == DType.F32 || type == DType.BF16 || type == DType.F16)
                && (!batch || channels * type.bytes() % ALIGNMENT == 0);
    }

    @Override
    public boolean forward(NormalizationCall call, long x, long gamma, long beta, long y, long mean, long inverse) {
        return graphs.run(call, demands, () -> forward(call), x, gamma, beta, y, mean, inverse);
    }

    @Override
    public boolean backward(NormalizationCall call, long g, long x, long positive, long gamma, long mean, long inverse,
            long dx, long dgamma, long dbeta) {
        long[] operands = call.relu() ? new long[] {g, x, gamma, mean, inverse, dx, dgamma, dbeta, positive}
                : new long[] {g, x, gamma, mean, inverse, dx, dgamma, dbeta};
        return graphs.run(new Backward(call), demands, () -> backward(call), operands);
    }

    /** Returns the graph of {@link Normalizer#forward}. */
    static Graph forward(NormalizationCall call) {
        Graph graph = new Graph();
        Operand x = values(graph, call);
        Operand gamma = weights(graph, call);
        Operand beta = weights(graph, call);
        Operand y = values(graph, call);
        Operand mean = statistics(graph, call);
        Operand inverse = statistics(graph, call);
        Operand sum = call.relu() ? graph.virtual(call.type(), y.sizes(), y.strides()) : y;
        graph.add(new Graph.Normalization(call.batch(), x, gamma, beta, graph.constant(call.epsilon()), mean, inverse,
                sum));
        if (call.relu()) {
            graph.apply(Function.RELU, sum, null, null, y);
        }
        return graph;
    }

    /** Returns the graph of {@link Normalizer#backward}; what was positive comes last. */
    static Graph backward(NormalizationCall call) {
        Graph graph = new Graph();
        Operand g = values(graph, call);
        Operand x = values(graph, call);
        Operand gamma = weights(graph, call);
        Operand mean = statistics(graph, call);
        Operand inverse = statistics(graph, call);
        Operand dx = values(graph, call);
        Operand dgamma = weights(graph, call);
        Operand dbeta = weights(graph, call);
        if (call.relu()) {
            Operand positive = graph.memory(DType.BOOL, g.sizes(), g.strides());
            g = graph.apply(Function.MUL, g, positive, null, graph.virtual(call.type(), g.sizes(), g.strides()));
        }
        graph.add(new Graph.NormalizationGradient(call.batch(), g, x, gamma, mean, inverse, dx, dgamma, dbeta));
        return graph;
    }

    private static Operand values(Graph graph, NormalizationCall call) {
        return memory(graph, call.type(), call.images(), call.channels(), call.pixels());
    }

    private static Operand weights(Graph graph, NormalizationCall call) {
        return memory(graph, DType.F32, 1, call.channels(), 1);
    }

    private static Operand statistics(Graph graph, NormalizationCall call) {
        return call.batch() ? weights(graph, call) : memory(graph, DType.F32, call.images(), 1, 1);
    }

    private static Operand memory(Graph graph, DType type, long images, long channels, long pixels) {
        long[] sizes = {images, channels, pixels, 1};
        return graph.memory(type, sizes, Graph.channelsLast(sizes));
    }
}
