package dev.starling.tensor.cpu;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ConvolutionShape;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnn;
import dev.starling.tensor.cpu.onednn.OneDnnFault;
import dev.starling.tensor.cpu.onednn.Pass;
import dev.starling.tensor.cpu.rows.WinogradTiles;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Convolution} operations, by oneDNN, for the types that it supports on this processor. Resulting
 * images are channels-last, whatever the operands' layouts; gradients of weights are row-major.
 */
final class ConvolutionKernels {
    private ConvolutionKernels() {
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Convolution op, Tensor[] inputs, Spec[] outputs) {
        ElementType type = ElementType.of(inputs[0].dtype());
        if (type == null || !OneDnn.supports(type) || isEmpty(inputs) || outputs[0].shape().count() == 0) {
            return null;
        }
        return switch (op) {
            case Convolution.Conv c -> {
                WinogradTiles tiles = Winograd.transforms(c, inputs[0].dtype(), inputs[1].shape(), outputs[0].shape());
                yield tiles != null ? Winograd.forward(tiles, c, inputs, outputs[0])
                        : forward(type, c, inputs, outputs[0]);
            }
            case Convolution.ConvInputGradient c -> {
                WinogradTiles tiles = Winograd.transforms(c, inputs[0].dtype(), inputs[1].shape(), outputs[0].shape());
                yield tiles != null ? Winograd.inputGradient(tiles, c, inputs, outputs[0])
                        : inputGradient(type, c, inputs, outputs[0]);
            }
            case Convolution.ConvWeightGradient c -> {
                WinogradTiles tiles = Winograd.transforms(c, inputs[0].dtype(), outputs[0].shape(), inputs[1].shape());
                yield tiles != null ? Winograd.weightGradient(tiles, c, inputs, outputs)
                        : TapGradient.suits(c, inputs[0].dtype(), inputs[0].shape(), outputs[0].shape(),
                                inputs[1].shape()) ? tapGradient(type, c, inputs, outputs)
                        : weightGradient(type, c, inputs, outputs);
            }
        };
    }

    /** Prepares what {@link #run} does; {@code null} if it is to be called. */
    static @Nullable Runnable prepare(Convolution op, Tensor[] in, Tensor[] results) {
        ElementType type = ElementType.of(in[0].dtype());
        if (type == null || !OneDnn.supports(type) || isEmpty(in) || results[0].count() == 0) {
            return null;
        }
        Shape result = results[0].shape();
        WinogradTiles tiles = switch (op) {
            case Convolution.Conv _, Convolution.ConvInputGradient _ ->
                Winograd.transforms(op, in[0].dtype(), in[1].shape(), result);
            case Convolution.ConvWeightGradient _ -> Winograd.transforms(op, in[0].dtype(), result, in[1].shape());
        };
        if (tiles == null) {
            return prepare(type, op, in, results);
        }
        return switch (op) {
            case Convolution.Conv c -> Winograd.prepare(tiles, c, in, results[0]);
            case Convolution.ConvInputGradient c -> Winograd.prepare(tiles, c, in, results[0]);
            case Convolution.ConvWeightGradient c -> Winograd.prepare(tiles, c, in, results);
        };
    }

    private static @Nullable Runnable prepare(ElementType type, Convolution op, Tensor[] in, Tensor[] results) {
        Tensor result = results[0];
        long first = in[0].address();
        long second = in[1].address();
        long to = result.address();
        return switch (op) {
            case Convolution.Conv c -> {
                ConvolutionShape shape = shape(c, in[0].shape(), in[1].shape(), result.shape());
                if (!isImage(in[0]) || !isWeight(in[1]) || in.length > 2 && !in[2].isContiguous()
                        || ConvolutionCut.of(type, Pass.FORWARD, shape) != null
                        || OneDnnFault.needsWidening(type, Pass.FORWARD, shape)) {
                    yield null;
                }
                var request = request(type, shape, in[0], in[1], result);
                long bias = in.length == 2 ? 0 : in[2].address();
                Runnable relu = c.epilogue() == Epilogue.RELU ? ElementwiseKernels.prepareRectify(result) : () -> { };
                yield () -> {
                    request.forward(first, second, bias, to);
                    relu.run();
                };
            }
            case Convolution.ConvInputGradient c -> {
                ConvolutionShape shape = shape(c, result.shape(), in[1].shape(), in[0].shape());
                if (!isImage(in[0]) || !isWeight(in[1]) || ConvolutionCut.of(type, Pass.DATA, shape) != null) {
                    yield null;
                }
                var request = request(type, shape, result, in[1], in[0]);
                yield () -> request.backwardData(first, second, to);
            }
            case Convolution.ConvWeightGradient c -> {
                if (TapGradient.suits(c, in[0].dtype(), in[0].shape(), result.shape(), in[1].shape())) {
                    yield TapGradient.of(c, in[0], in[1], results);
                }
                ConvolutionShape shape = shape(c, in[0].shape(), result.shape(), in[1].shape());
                if (!isImage(in[0]) || !isImage(in[1]) || ConvolutionCut.of(type, Pass.WEIGHTS, shape) != null) {
                    yield null;
                }
                var request = request(type, shape, in[0], result, in[1]);
                long bias = c.bias() ? results[1].address() : 0;
                yield () -> request.backwardWeights(first, second, to, bias);
            }
        };
    }

    private static Tensor @Nullable [] forward(ElementType type, Convolution.Conv op, Tensor[] in, Spec output) {
        ConvolutionShape shape = shape(op, in[0].shape(), in[1].shape(), output.shape());
        ConvolutionCut cut = ConvolutionCut.of(type, Pass.FORWARD, shape);
        if (cut != null && cut.isTooSparse() || OneDnnFault.needsWidening(type, Pass.FORWARD, shape)) {
            return null;
        }
        Tensor y = cut != null ? cut.forward(in, output) : forward(type, shape, in, output);
        if (op.epilogue() == Epilogue.RELU) {
            ElementwiseKernels.rectify(y);
        }
        return new Tensor[] {y};
    }

    private static Tensor forward(ElementType type, ConvolutionShape shape, Tensor[] in, Spec output) {
        Tensor x = image(in[0]);
        Tensor weight = weight(in[1]);
        Tensor y = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        Tensor bias = in.length == 2 ? null : CopyKernels.dense(in[2]);
        try {
            request(type, shape, x, weight, y)
                    .forward(x.address(), weight.address(), bias == null ? 0 : bias.address(), y.address());
        } finally {
            Layout.release(x, in[0]);
            Layout.release(weight, in[1]);
            Layout.release(bias, in.length == 2 ? null : in[2]);
        }
        return y;
    }

    private static Tensor @Nullable [] inputGradient(ElementType type, Convolution.ConvInputGradient op, Tensor[] in,
                                          Spec output) {
        ConvolutionShape shape = shape(op, output.shape(), in[1].shape(), in[0].shape());
        ConvolutionCut cut = ConvolutionCut.of(type, Pass.DATA, shape);
        if (cut != null) {
            return cut.isTooSparse() ? null : new Tensor[] {cut.inputGradient(in, output)};
        }
        Tensor g = image(in[0]);
        Tensor weight = weight(in[1]);
        Tensor x = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        try {
            request(type, shape, x, weight, g).backwardData(g.address(), weight.address(), x.address());
        } finally {
            Layout.release(g, in[0]);
            Layout.release(weight, in[1]);
        }
        return new Tensor[] {x};
    }

    private static Tensor @Nullable [] tapGradient(ElementType type, Convolution.ConvWeightGradient op, Tensor[] in,
            Spec[] outputs) {
        Tensor[] results = new Tensor[outputs.length];
        Arrays.setAll(results, i -> Storage.allocate(outputs[i]));
        Tensor x = image(in[0]);
        Tensor g = CopyKernels.channelsLast(in[1]);
        try {
            Runnable request = TapGradient.of(op, x, g, results);
            if (request == null) {
                return weightGradient(type, op, in, outputs);
            }
            request.run();
            return results;
        } finally {
            Layout.release(x, in[0]);
            Layout.release(g, in[1]);
        }
    }

    private static Tensor @Nullable [] weightGradient(ElementType type, Convolution.ConvWeightGradient op, Tensor[] in,
                                           Spec[] outputs) {
        ConvolutionShape shape = shape(op, in[0].shape(), outputs[0].shape(), in[1].shape());
        ConvolutionCut cut = ConvolutionCut.of(type, Pass.WEIGHTS, shape);
        if (cut != null) {
            return cut.isTooSparse() ? null : cut.weightGradient(in, outputs);
        }
        Tensor x = image(in[0]);
        Tensor g = image(in[1]);
        Tensor weight = Storage.allocate(outputs[0]);
        Tensor bias = op.bias() ? Storage.allocate(outputs[1]) : null;
        try {
            request(type, shape, x, weight, g)
                    .backwardWeights(x.address(), g.address(), weight.address(), bias == null ? 0 : bias.address());
        } finally {
            Layout.release(x, in[0]);
            Layout.release(g, in[1]);
        }
        return bias == null ? new Tensor[] {weight} : new Tensor[] {weight, bias};
    }

    static dev.starling.tensor.cpu.onednn.Convolution request(ElementType type, ConvolutionShape shape,
            Tensor x, Tensor weight, Tensor y) {
        return new dev.starling.tensor.cpu.onednn.Convolution(type, shape, x.sharedStrides(), weight.sharedStrides(),
                y.sharedStrides()).keep(weight.storage(), weight.offset());
    }

    private static ConvolutionShape shape(Convolution op, Shape x, Shape weight, Shape y) {
        Convolution.Geometry geometry = op.geometry();
        long[] padding = widened(geometry.padding());
        return new ConvolutionShape(x.dim(0), x.dim(1), y.dim(1), geometry.groups(), spatial(x), spatial(y),
                spatial(weight), widened(geometry.stride()), widened(geometry.dilation()), padding, padding);
    }

    private static long[] spatial(Shape shape) {
        long[] dims = new long[shape.rank() - 2];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = shape.dim(i + 2);
        }
        return dims;
    }

    private static long[] widened(int[] values) {
        return Arrays.stream(values).asLongStream().toArray();
    }

    /** Returns an image that oneDNN can read; it reorders row-major images itself, slice by slice. */
    static Tensor image(Tensor x) {
        return isImage(x) ? x : CopyKernels.channelsLast(x);
    }

    static Tensor weight(Tensor weight) {
        return isWeight(weight) ? weight : CopyKernels.dense(weight);
    }

    private static boolean isImage(Tensor x) {
        return x.isContiguous() || ChannelsLast.holds(x);
    }

    private static boolean isWeight(Tensor weight) {
        return weight.isContiguous() || ChannelsLast.holds(weight);
    }

    private static boolean isEmpty(Tensor[] inputs) {
        for (Tensor input : inputs) {
            if (input.count() == 0) {
                return true;
            }
        }
        return false;
    }
}
