package dev.starling.cuda.dnn;

import dev.starling.cuda.config.CudaConfig;
import dev.starling.cuda.dnn.Graph.Function;
import dev.starling.cuda.dnn.Graph.Operand;
import dev.starling.cuda.dnn.Graph.Pass;
import dev.starling.cuda.kernels.Answer;
import dev.starling.cuda.kernels.ConvolutionKernels;
import dev.starling.cuda.kernels.Kernels;
import dev.starling.cuda.kernels.Launcher;
import dev.starling.cuda.kernels.ReductionKernels;
import dev.starling.cuda.known.LibraryQuery;
import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.spi.ChannelsLast;
import org.jspecify.annotations.Nullable;

/**
 * Convolutions of one or two dimensions by the graph interface of NVIDIA's cuDNN 9, with bias and ReLU in the same
 * kernel, on tensor cores for 16-bit types, which accumulate in f32. All operands are channels last, weights and their
 * gradients too. f32 is multiplied in full precision unless the configuration allows TF32. The engine of a call is the
 * one that the library expects to be fastest among the deterministic ones, or among all if the configuration allows it.
 */
public final class CudnnConvolution implements Kernels<Convolution> {
    private static final String FALLBACK = "Starling's own kernels compute convolutions, which are slower";
    private static final Answer UNSUPPORTED = new Answer.Declined("cuDNN has no such convolution, or not of this type");
    private static final Answer NOT_OPEN = new Answer.Declined("cuDNN is not open");
    private static final Answer FAULTY = new Answer.Declined("cuDNN has a known fault");
    private static final Answer COUNT = new Answer.Declined("cuDNN convolves 1 to 2^31 - 1 elements");
    private static final long MAX_WORKSPACE_BYTES = 1L << 30;

    private final Cudnn cudnn;
    private final Launcher launcher;
    private final ReductionKernels sums;
    private final CudnnGraphs graphs;
    private final CudaConfig config;

    /**
     * A convolution, as far as its graph depends on it.
     *
     * @param op the operation
     * @param biased whether a bias is added
     * @param type of all operands
     * @param x shape of the images
     * @param weight shape of the weight
     * @param y shape of the results
     */
    record Call(Convolution op, boolean biased, DType type, Shape x, Shape weight, Shape y) { }

    /** Makes the kernels; the library is opened at its first use. */
    public CudnnConvolution(Cudnn cudnn, Launcher launcher, ReductionKernels sums, CudaConfig config) {
        this.cudnn = cudnn;
        this.launcher = launcher;
        this.sums = sums;
        this.config = config;
        graphs = new CudnnGraphs(cudnn, config, FALLBACK);
    }

    @Override
    public Tensor[] allocate(Convolution op, Tensor[] in, Spec[] outputs) {
        Tensor first = Storage.allocate(outputs[0], ChannelsLast.strides(outputs[0].shape()));
        return outputs.length == 1 ? new Tensor[] {first} : new Tensor[] {first, Storage.allocate(outputs[1])};
    }

    @Override
    public Answer compute(Convolution op, Tensor[] in, Tensor[] out) {
        if (op.geometry().rank() > 2 || !supports(in[0].dtype())) {
            return UNSUPPORTED;
        }
        if (!fits(in[0]) || !fits(in[1]) || !fits(out[0])) {
            return COUNT;
        }
        if (!cudnn.isOpen(FALLBACK)) {
            return NOT_OPEN;
        }
        Tensor images = op instanceof Convolution.ConvInputGradient ? out[0] : in[0];
        boolean depthwise = op.geometry().groups() > 1 && op.geometry().groups() == images.size(1);
        if (cudnn.isFaulty(new LibraryQuery.Convolution(depthwise), FALLBACK)) {
            return FAULTY;
        }
        Tensor a = launcher.channelsLast(in[0]);
        Tensor b = launcher.channelsLast(in[1]);
        return switch (op) {
            case Convolution.Conv c -> run(c, a, b, out[0], in.length == 3 ? launcher.aligned(in[2]) : null);
            case Convolution.ConvInputGradient c -> run(c, out[0], b, a, null);
            case Convolution.ConvWeightGradient c -> {
                Answer answer = run(c, a, out[0], b, null);
                yield answer.isHandled() ? ConvolutionKernels.biasGradient(sums, c, in[1], out) : answer;
            }
        };
    }

    private static boolean fits(Tensor x) {
        return x.count() > 0 && x.count() <= Integer.MAX_VALUE;
    }

    private static boolean supports(DType type) {
        return type == DType.F32 || type == DType.BF16 || type == DType.F16;
    }

    private Answer run(Convolution op, Tensor x, Tensor weight, Tensor y, @Nullable Tensor bias) {
        Call call = new Call(op, bias != null, x.dtype(), x.shape(), weight.shape(), y.shape());
        return graphs.run(call, constraints(call.type == DType.F32 && !config.tf32(), !config.nondeterministic()),
                () -> graph(call), CudnnGraphs.addresses(x, weight, y, bias));
    }

    static GraphPlan.Constraints constraints(boolean fullPrecision, boolean deterministic) {
        return new GraphPlan.Constraints(deterministic, fullPrecision, MAX_WORKSPACE_BYTES);
    }

    /** Returns the graph of a call: of images, weight, results and the bias, if there is one. */
    static Graph graph(Call call) {
        Graph graph = new Graph();
        Convolution.Geometry g = call.op.geometry();
        boolean relu = call.op instanceof Convolution.Conv c && c.epilogue() == Epilogue.RELU;
        Operand x = memory(graph, call.type, call.x);
        Operand weight = memory(graph, call.type, call.weight);
        Operand y = memory(graph, call.type, call.y);
        Operand sum = call.biased || relu ? graph.virtual(DType.F32, y.sizes(), y.strides()) : y;
        graph.add(new Graph.Convolution(switch (call.op) {
            case Convolution.Conv _ -> Pass.FORWARD;
            case Convolution.ConvInputGradient _ -> Pass.INPUT_GRADIENT;
            case Convolution.ConvWeightGradient _ -> Pass.WEIGHT_GRADIENT;
        }, twice(g.padding(), 0), twice(g.stride(), 1), twice(g.dilation(), 1), x, weight, sum));
        if (call.biased) {
            Operand bias = memory(graph, call.type, Shape.of(1, call.y.dim(1), 1));
            sum = graph.apply(Function.ADD, sum, bias, null,
                    relu ? graph.virtual(DType.F32, y.sizes(), y.strides()) : y);
        }
        if (relu) {
            graph.apply(Function.RELU, sum, null, null, y);
        }
        return graph;
    }

    /** Returns one value for each of two dimensions; the first has the value {@code missing} if there is only one. */
    private static long[] twice(int[] values, int missing) {
        return new long[] {values.length == 1 ? missing : values[0], values[values.length - 1]};
    }

    /** Adds an operand; lines are images of height 1. */
    private static Operand memory(Graph graph, DType type, Shape shape) {
        long[] sizes = {shape.dim(0), shape.dim(1), shape.rank() == 3 ? 1 : shape.dim(2), shape.dim(-1)};
        return graph.memory(type, sizes, Graph.channelsLast(sizes));
    }
}
