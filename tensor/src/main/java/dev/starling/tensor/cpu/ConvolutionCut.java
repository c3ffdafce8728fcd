package dev.starling.tensor.cpu;

import static dev.starling.tensor.host.HostMemory.ALL;

import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.onednn.ConvolutionShape;
import dev.starling.tensor.cpu.onednn.ElementType;
import dev.starling.tensor.cpu.onednn.OneDnnFault;
import dev.starling.tensor.cpu.onednn.Pass;
import dev.starling.tensor.cpu.onednn.Reorders;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.Arrays;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A convolution that oneDNN cannot compute as it stands, because parts of it read only padding or {@link OneDnnFault}
 * knows that oneDNN's result is wrong. oneDNN computes the part that {@link ConvolutionAxis} keeps, on views of the
 * operands and of the result, or, if that part has gaps or a fault remains, on a padded copy of the image.
 */
final class ConvolutionCut {
    /**
     * A padded copy with more elements than this must not exceed the convolution's own tensors by a factor of
     * {@link #MAX_COPY_RATIO}.
     */
    private static final long LARGE_COPY = 1L << 24;
    private static final int MAX_COPY_RATIO = 8;
    /** With strides of this order between output positions, oneDNN takes minutes to set up an input gradient. */
    private static final long LONG_STRIDE = 4096;

    private final ElementType type;
    private final ConvolutionShape whole;
    private final ConvolutionAxis[] axes;
    private final boolean padded;

    private ConvolutionCut(ElementType type, ConvolutionShape whole, ConvolutionAxis[] axes, boolean padded) {
        this.type = type;
        this.whole = whole;
        this.axes = axes;
        this.padded = padded;
    }

    /**
     * Returns the reduced convolution, or {@code null} if oneDNN computes this one correctly as it stands, as it does
     * nearly all.
     */
    static @Nullable ConvolutionCut of(ElementType type, Pass pass, ConvolutionShape shape) {
        boolean whole = true;
        for (int i = 0; i < shape.spatialDims(); i++) {
            whole &= ConvolutionAxis.isWhole(shape.in()[i], shape.kernel()[i], shape.out()[i], shape.stride()[i],
                    shape.padLow()[i], shape.dilation()[i]);
        }
        if (whole && !OneDnnFault.affectsWhole(type, pass, shape) && !hasLongStride(shape)) {
            return null;
        }
        ConvolutionAxis[] axes = new ConvolutionAxis[shape.spatialDims()];
        boolean gaps = false;
        boolean empty = false;
        for (int i = 0; i < axes.length; i++) {
            axes[i] = ConvolutionAxis.of(shape.in()[i], shape.kernel()[i], shape.out()[i], shape.stride()[i],
                    shape.padLow()[i], shape.dilation()[i]);
            gaps |= axes[i].gaps();
            empty |= axes[i].taps() == 0;
        }
        ConvolutionCut cut = new ConvolutionCut(type, shape, axes, gaps);
        return empty || gaps || !OneDnnFault.needsPaddedCopy(type, pass, cut.kept()) ? cut
                : new ConvolutionCut(type, shape, axes, true);
    }

    private static boolean hasLongStride(ConvolutionShape shape) {
        boolean found = false;
        for (int i = 0; i < shape.spatialDims(); i++) {
            found |= shape.stride()[i] > Math.max(LONG_STRIDE, (shape.kernel()[i] - 1) * shape.dilation()[i] + 1);
        }
        return found;
    }

    /**
     * Returns whether the reference kernels are faster: a padded copy would be disproportionate, or output positions
     * are so far apart that setting up oneDNN takes longer than they do.
     */
    boolean isTooSparse() {
        if (!isEmpty() && hasLongStride(kept())) {
            return true;
        }
        double copy = 1.0 * whole.batch() * whole.inChannels();
        double own = copy;
        double result = 1.0 * whole.batch() * whole.outChannels();
        for (int i = 0; i < axes.length; i++) {
            copy *= axes[i].pixels() + axes[i].low() + axes[i].high();
            own *= whole.in()[i];
            result *= whole.out()[i];
        }
        return padded && copy > LARGE_COPY && copy > MAX_COPY_RATIO * (own + result);
    }

    /** Computes {@code y}, without an activation. */
    Tensor forward(Tensor[] in, Spec output) {
        Tensor y = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        Tensor bias = in.length == 2 ? null : CopyKernels.dense(in[2]);
        try {
            if (isEmpty() || !keeps(ConvolutionAxis::places, whole.out())) {
                fill(y, bias);
            }
            if (!isEmpty()) {
                Tensor window = pixels(in[0]);
                Tensor kept = taps(in[1]);
                Tensor x = padded ? paddedCopy(in[0]) : ConvolutionKernels.image(window);
                Tensor weight = ConvolutionKernels.weight(kept);
                Tensor result = places(y);
                ConvolutionKernels.request(type, kept(), x, weight, result)
                        .forward(x.address(), weight.address(), bias == null ? 0 : bias.address(), result.address());
                Layout.release(x, window);
                Layout.release(weight, kept);
            }
        } finally {
            Layout.release(bias, in.length == 2 ? null : in[2]);
        }
        return y;
    }

    /** Computes the gradient of {@code x} from that of {@code y} and the weight. */
    Tensor inputGradient(Tensor[] in, Spec output) {
        Tensor x = Storage.allocate(output, ChannelsLast.strides(output.shape()));
        if (isEmpty() || !keeps(ConvolutionAxis::pixels, whole.in())) {
            fill(x, null);
        }
        if (!isEmpty()) {
            Tensor places = places(in[0]);
            Tensor kept = taps(in[1]);
            Tensor g = ConvolutionKernels.image(places);
            Tensor weight = ConvolutionKernels.weight(kept);
            Tensor window = pixels(x);
            // oneDNN does not write to interleaved strides.
            Tensor result = padded ? padding(x.spec()) : isStepped() ? Storage.allocate(window.spec()) : window;
            ConvolutionKernels.request(type, kept(), result, weight, g)
                    .backwardData(g.address(), weight.address(), result.address());
            if (result != window) {
                CopyKernels.copy(padded ? insidePadding(result) : result, window);
            }
            Layout.release(g, places);
            Layout.release(weight, kept);
            Layout.release(result, window);
        }
        return x;
    }

    /** Computes the gradients of the weight and, if there are two outputs, of the bias. */
    Tensor[] weightGradient(Tensor[] in, Spec[] outputs) {
        Tensor weight = Storage.allocate(outputs[0]);
        if (isEmpty() || !keepsTaps()) {
            fill(weight, null);
        }
        if (!isEmpty()) {
            Tensor pixels = pixels(in[0]);
            Tensor places = places(in[1]);
            Tensor x = padded ? paddedCopy(in[0]) : ConvolutionKernels.image(pixels);
            Tensor g = ConvolutionKernels.image(places);
            Tensor window = taps(weight);
            // oneDNN does not write to interleaved strides.
            Tensor result = keepsTaps() ? window : Storage.allocate(window.spec());
            ConvolutionKernels.request(type, kept(), x, result, g)
                    .backwardWeights(x.address(), g.address(), result.address(), 0);
            if (result != window) {
                CopyKernels.copy(result, window);
            }
            Layout.release(x, pixels);
            Layout.release(g, places);
            Layout.release(result, window);
        }
        if (outputs.length == 1) {
            return new Tensor[] {weight};
        }
        int[] others = new int[axes.length + 1];
        Arrays.setAll(others, i -> i == 0 ? 0 : i + 1);
        Reduction sum = new Reduction.Sum(Axes.of(in[1].shape(), others), false);
        Tensor[] bias = ReductionKernels.run(sum, in[1], outputs[1]);
        return new Tensor[] {weight, Objects.requireNonNull(bias != null ? bias
                : Widened.run(sum, new Tensor[] {in[1]}, new Spec[] {outputs[1]}))[0]};
    }

    /** Returns whether no tap reads a pixel of the image. */
    boolean isEmpty() {
        return Arrays.stream(axes).anyMatch(axis -> axis.taps() == 0);
    }

    /** Returns whether a part has the sizes of the whole convolution, so that nothing is cut off. */
    private boolean keeps(Part part, long[] sizes) {
        boolean all = true;
        for (int i = 0; i < axes.length; i++) {
            all &= part.of(axes[i]) == sizes[i];
        }
        return all;
    }

    private boolean keepsTaps() {
        return keeps(ConvolutionAxis::taps, whole.kernel());
    }

    private boolean isStepped() {
        return Arrays.stream(axes).anyMatch(axis -> axis.pixelStep() > 1);
    }

    private static void fill(Tensor y, @Nullable Tensor bias) {
        if (bias == null) {
            ALL.asSlice(y.address(), y.spec().bytes()).fill((byte) 0);
            return;
        }
        long[] strides = new long[y.rank()];
        strides[1] = 1;
        CopyKernels.copy(bias.storage().view(bias.spec().with(y.shape()), strides, bias.offset()), y);
    }

    /** Returns the part that is kept, with its padding, or without if the image is padded already. */
    ConvolutionShape kept() {
        int n = axes.length;
        long[][] sizes = new long[7][n];
        for (int i = 0; i < n; i++) {
            ConvolutionAxis a = axes[i];
            long low = padded ? 0 : a.low();
            long high = padded ? 0 : a.high();
            long[] values = {a.pixels() + a.low() - low + a.high() - high, a.places(), a.taps(), a.stride(),
                a.dilation(), low, high};
            for (int k = 0; k < values.length; k++) {
                sizes[k][i] = values[k];
            }
        }
        return new ConvolutionShape(whole.batch(), whole.inChannels(), whole.outChannels(), whole.groups(), sizes[0],
                sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]);
    }

    private Tensor pixels(Tensor x) {
        return view(x, ConvolutionAxis::pixel, ConvolutionAxis::pixels, ConvolutionAxis::pixelStep);
    }

    private Tensor places(Tensor y) {
        return view(y, ConvolutionAxis::place, ConvolutionAxis::places, _ -> 1);
    }

    private Tensor taps(Tensor weight) {
        return view(weight, ConvolutionAxis::tap, ConvolutionAxis::taps, ConvolutionAxis::tapStep);
    }

    private Tensor insidePadding(Tensor x) {
        return view(x, ConvolutionAxis::low, ConvolutionAxis::pixels, _ -> 1);
    }

    private Tensor padding(Spec image) {
        long[] dims = image.shape().dims();
        for (int i = 0; i < axes.length; i++) {
            dims[i + 2] = axes[i].low() + axes[i].pixels() + axes[i].high();
        }
        Shape shape = Shape.of(dims);
        return Storage.allocate(image.with(shape), ChannelsLast.strides(shape));
    }

    private Tensor paddedCopy(Tensor x) {
        Tensor copy = padding(x.spec());
        fill(copy, null);
        Reorders.count();
        CopyKernels.copy(pixels(x), insidePadding(copy));
        return copy;
    }

    private interface Part {
        long of(ConvolutionAxis axis);
    }

    private Tensor view(Tensor x, Part first, Part count, Part step) {
        long[] dims = x.shape().dims();
        long[] strides = x.strides();
        long offset = x.offset();
        for (int i = 0; i < axes.length; i++) {
            dims[i + 2] = count.of(axes[i]);
            offset += first.of(axes[i]) * strides[i + 2];
            strides[i + 2] *= step.of(axes[i]);
        }
        return x.storage().view(x.spec().with(Shape.of(dims)), strides, offset);
    }
}
