package dev.starling.tensor.cpu.onednn;

import dev.starling.tensor.Storage;
import dev.starling.tensor.host.Parallel;
import dev.starling.tensor.host.RangeTask;
import dev.starling.tensor.host.RangeWork;
import dev.starling.tensor.spi.Form;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A convolution and its backward passes on data with any strides. Channels-last source and destination (with the
 * strides of {@code [N, spatial…, C]}) are used in place and are fastest; others are copied. A request is set up once
 * and run any number of times, by one thread at a time; a run makes no object unless packed weights are kept.
 *
 * <p>The batch is divided into slices, one per thread. Gradients of weights are summed over slices in order, so that
 * the same number of threads gives the same bits. If the weights are larger than the data, or a forward pass has fewer
 * samples than threads, the output channels are divided instead and nothing is summed.
 */
public final class Convolution implements RangeTask {
    private static final int KIND = 2;
    private static final int KIND_ADD = 3;
    private static final int KIND_COPY = 4;
    /** Work that justifies a thread for a slice. */
    private static final double FLOPS_PER_SLICE = 1e6;
    /** Slices of output channels begin at multiples of this. */
    private static final long CHANNEL_GRAIN = 16;
    private static final int FLOAT_BYTES = 4;

    private final ElementType type;
    private final ConvolutionShape shape;
    private final long[] sourceStrides;
    private final long[] weightStrides;
    private final long[] destinationStrides;
    private final boolean sourceNear;
    private final boolean destinationNear;
    private final int threadLimit;
    private final PartialSum partialSum = new PartialSum();
    private Convolution[] channelSlices = {};
    /** The number of output channels of each slice but the last. */
    private long sliceChannels;
    /** The memory that keeps the packed weights, or {@code null}, and the position of the weights in it. */
    private @Nullable Storage keeper;
    private long keptOffset;
    /** Of the kernel that ran last; slices of different kernels may set it at the same time. */
    private @Nullable Packing packing;

    private Pass pass = Pass.FORWARD;
    private long samples;
    private long slices;
    private long source;
    private long weights;
    private long destination;
    private long bias;
    private @Nullable ConvolutionKernel packedFor;
    private long packed;
    private long partialBytes;

    private record Packing(ConvolutionKernel kernel, Form.Key key) { }

    /** Strides are in elements: of {@code [N, IC, in…]}, {@code [OC, IC / groups, kernel…]}, {@code [N, OC, out…]}. */
    public Convolution(ElementType type, ConvolutionShape shape, long[] sourceStrides, long[] weightStrides,
                       long[] destinationStrides) {
        this(type, shape, sourceStrides, shape.weightStrides(weightStrides), destinationStrides, Integer.MAX_VALUE);
    }

    private Convolution(ElementType type, ConvolutionShape shape, long[] sourceStrides, long[] weightStrides,
                        long[] destinationStrides, int threadLimit) {
        this.type = type;
        this.shape = shape;
        this.sourceStrides = sourceStrides;
        this.weightStrides = weightStrides;
        this.threadLimit = threadLimit;
        this.destinationStrides = destinationStrides;
        sourceNear = Layout.isChannelsLast(shape.sourceDims(shape.batch()), sourceStrides);
        destinationNear = Layout.isChannelsLast(shape.destinationDims(shape.batch()), destinationStrides);
    }

    /** Keeps packed weights with their storage, where they begin at element {@code offset}. */
    public Convolution keep(Storage storage, long offset) {
        keeper = storage;
        if (keptOffset != offset) {
            keptOffset = offset;
            packing = null;
        }
        return this;
    }

    /** Computes the destination; {@code biasAddress} points to {@code [OC]}, or is 0 for none. */
    public void forward(long sourceAddress, long weightsAddress, long biasAddress, long destinationAddress) {
        source = sourceAddress;
        weights = weightsAddress;
        bias = biasAddress;
        destination = destinationAddress;
        begin(Pass.FORWARD);
        long threads = threads();
        if (shape.batch() < threads && shape.groups() == 1 && shape.outChannels() >= CHANNEL_GRAIN * threads) {
            byChannels(threads, this::forward);
        } else {
            runWithPackedWeights();
        }
    }

    /** Computes the gradient of the source from that of the destination. */
    public void backwardData(long destinationGradient, long weightsAddress, long sourceGradient) {
        source = sourceGradient;
        weights = weightsAddress;
        bias = 0;
        destination = destinationGradient;
        begin(Pass.DATA);
        runWithPackedWeights();
    }

    /** Computes the gradient of the weights and, unless its address is 0, of the bias. */
    public void backwardWeights(long sourceAddress, long destinationGradient, long weightsGradient,
                                long biasGradient) {
        source = sourceAddress;
        weights = weightsGradient;
        bias = biasGradient;
        destination = destinationGradient;
        begin(Pass.WEIGHTS);
        if (slices > 1 && shape.groups() == 1 && shape.outChannels() >= CHANNEL_GRAIN * slices
            && (slices + 1) * shape.weightCount() > 2 * shape.destinationCount() + shape.sourceCount()) {
            byChannels(slices, this::backwardWeights);
            return;
        }
        try (Session session = Session.acquire()) {
            ConvolutionKernel kernel = kernel(session, samples);
            if (slices == 1 && type == ElementType.F32 && kernel.readsUserWeights()) {
                kernel.run(session, source, weights, destination, bias);
                return;
            }
            long weightBytes = aligned(kernel.packedBytes());
            partialBytes = weightBytes + (bias == 0 ? 0 : aligned(shape.outChannels() * FLOAT_BYTES));
            packed = session.memory(Session.Use.WEIGHTS, slices * partialBytes);
            packedFor = kernel;
            runSlices();
            partialSum.run();
            if (kernel.readsUserWeights()) {
                copy(session, kernel.packedBytes() / FLOAT_BYTES, packed, weights, ElementType.F32);
            } else {
                kernel.reorderWeights(session, packed, weights);
            }
            if (bias != 0) {
                copy(session, shape.outChannels(), packed + weightBytes, bias, type);
            }
        } finally {
            packedFor = null;
        }
    }

    /** Runs slices; called by the thread pool. */
    @Override
    public void run(long from, long to) {
        try (Session session = Session.acquire()) {
            for (long slice = from; slice < to; slice++) {
                long begin = slice * samples;
                runSlice(session, slice, begin, Math.min(shape.batch(), begin + samples) - begin);
            }
        }
    }

    /** Returns the oneDNN kernel that a pass uses: 0 forward, 1 backward by data, 2 backward by weights. */
    String implementation(int which) {
        begin(Pass.values()[which]);
        try (Session session = Session.acquire()) {
            return kernel(session, samples).implementation();
        }
    }

    private void begin(Pass next) {
        pass = next;
        long threads = Math.min(threads(), shape.batch());
        samples = (shape.batch() + threads - 1) / threads;
        slices = (shape.batch() + samples - 1) / samples;
    }

    /** Returns the number of threads that the work justifies. */
    private long threads() {
        return (long) Math.min(Math.min(threadLimit, Parallel.threads()), Math.max(1, shape.flops() / FLOPS_PER_SLICE));
    }

    /** Runs the pass for each slice of the output channels, one per thread. */
    private void byChannels(long parts, ChannelPass body) {
        long channels = (shape.outChannels() / parts + CHANNEL_GRAIN - 1) / CHANNEL_GRAIN * CHANNEL_GRAIN;
        int count = (int) ((shape.outChannels() + channels - 1) / channels);
        if (channelSlices.length != count || sliceChannels != channels) {
            channelSlices = new Convolution[count];
            sliceChannels = channels;
            for (int i = 0; i < count; i++) {
                long size = Math.min(channels, shape.outChannels() - i * channels);
                channelSlices[i] = new Convolution(type, shape.withOutChannels(size), sourceStrides, weightStrides,
                    destinationStrides, 1);
            }
        }
        new RangeWork(count, 1) {
            @Override
            public void run(long from, long to) {
                for (long i = from; i < to; i++) {
                    long first = i * channels;
                    Convolution slice = channelSlices[(int) i];
                    if (keeper != null) {
                        slice.keep(keeper, keptOffset + first * weightStrides[0]);
                    }
                    body.run(slice, destination + first * destinationStrides[1] * type.bytes(),
                        weights + first * weightStrides[0] * type.bytes(), bias == 0 ? 0 : bias + first * type.bytes());
                }
            }
        }.run();
    }

    private void forward(Convolution slice, long destinationPart, long weightsPart, long biasPart) {
        slice.forward(source, weightsPart, biasPart, destinationPart);
    }

    private void backwardWeights(Convolution slice, long destinationPart, long weightsPart, long biasPart) {
        slice.backwardWeights(source, destinationPart, weightsPart, biasPart);
    }

    private void runWithPackedWeights() {
        try (Session session = Session.acquire()) {
            ConvolutionKernel kernel = kernel(session, samples);
            try (Form form = form(session, kernel)) {
                packed = form != null ? form.address() : packed(session, kernel);
                packedFor = kernel;
                if (slices == 1) {
                    kernel.run(session, source, packed, destination, bias);
                } else {
                    runSlices();
                }
            }
        } finally {
            packedFor = null;
        }
    }

    /** Returns the weights as the kernel reads them, if their storage keeps them so. */
    private @Nullable Form form(Session session, ConvolutionKernel kernel) {
        if (keeper == null || kernel.readsUserWeights()) {
            return null;
        }
        Packing known = packing;
        if (known == null || known.kernel != kernel) {
            known = new Packing(kernel, new Form.Key(keptOffset, weightStrides, kernel.packing()));
            packing = known;
        }
        Form.Key key = known.key;
        return keeper.isReused(key, 1) ? keeper.form(key, kernel.packedBytes(),
            to -> kernel.reorderWeights(session, weights, to)) : null;
    }

    /** Returns the address of weights as the kernel reads them, packed for this call. */
    private long packed(Session session, ConvolutionKernel kernel) {
        if (kernel.readsUserWeights()) {
            return weights;
        }
        long near = session.memory(Session.Use.WEIGHTS, kernel.packedBytes());
        kernel.reorderWeights(session, weights, near);
        return near;
    }

    private void runSlices() {
        Parallel.forRange(slices, 1, this);
    }

    private void runSlice(Session session, long slice, long begin, long count) {
        ConvolutionKernel kernel = kernel(session, count);
        long from = source + begin * sourceStrides[0] * type.bytes();
        long to = destination + begin * destinationStrides[0] * type.bytes();
        if (pass == Pass.WEIGHTS) {
            runPartial(session, kernel, slice, from, to);
            return;
        }
        if (kernel.packsLike(Objects.requireNonNull(packedFor))) {
            kernel.run(session, from, packed, to, bias);
            return;
        }
        try (Form form = form(session, kernel)) {
            kernel.run(session, from, form != null ? form.address() : packed(session, kernel), to, bias);
        }
    }

    /** Computes one slice's gradients of weights and bias, in the packing of the first slice's kernel. */
    private void runPartial(Session session, ConvolutionKernel kernel, long slice, long from, long to) {
        long partial = packed + slice * partialBytes;
        ConvolutionKernel first = Objects.requireNonNull(packedFor);
        long partialBias = bias == 0 ? 0 : partial + aligned(first.packedBytes());
        if (kernel.packsLike(first)) {
            kernel.run(session, from, partial, to, partialBias);
        } else {
            long own = session.memory(Session.Use.WEIGHTS, kernel.packedBytes());
            kernel.run(session, from, own, to, partialBias);
            kernel.repackWeights(session, own, first, partial);
        }
    }

    private ConvolutionKernel kernel(Session session, long count) {
        Key key = session.key().begin(KIND).add(type.code).add(pass.ordinal()).add(bias != 0)
            .add(weightStrides);
        shape.addTo(key, count);
        key.add(sourceNear);
        if (!sourceNear) {
            key.add(sourceStrides);
        }
        key.add(destinationNear);
        if (!destinationNear) {
            key.add(destinationStrides);
        }
        Compiled found = session.find();
        if (found == null) {
            found = session.keep(key.copy(), ConvolutionKernel.compile(pass, type, shape, count,
                sourceNear ? null : new Layout(type, shape.sourceDims(count), sourceStrides),
                new Layout(type, shape.weightDims(), weightStrides),
                destinationNear ? null : new Layout(type, shape.destinationDims(count), destinationStrides),
                bias != 0));
        }
        return (ConvolutionKernel) found;
    }

    /** Copies {@code count} contiguous single-precision numbers, converting them. */
    private static void copy(Session session, long count, long from, long to, ElementType toType) {
        flat(session, KIND_COPY, count, toType).convert(session, from, to);
    }

    private static Executable flat(Session session, int kind, long count, ElementType toType) {
        Key key = session.key().begin(kind).add(count).add(toType.code);
        Compiled found = session.find();
        if (found == null) {
            long from = Dnnl.strided(ElementType.F32, new long[] {count}, new long[] {1});
            long to = Dnnl.strided(toType, new long[] {count}, new long[] {1});
            try {
                found = session.keep(key.copy(), Executable.reorder(from, to, kind == KIND_ADD));
            } finally {
                Dnnl.destroy(Dnnl.Kind.DESC, from);
                Dnnl.destroy(Dnnl.Kind.DESC, to);
            }
        }
        return (Executable) found;
    }

    private static long aligned(long bytes) {
        return bytes + 63 & -64;
    }

    /** A pass over a slice of the output channels. */
    private interface ChannelPass {
        void run(Convolution slice, long destination, long weights, long bias);
    }

    /** Adds the gradients of all slices to those of the first: each thread a range of elements, slices in order. */
    private final class PartialSum implements RangeTask {
        private static final long BLOCK = 16_384;

        private void run() {
            if (slices > 1) {
                long floats = partialBytes / FLOAT_BYTES;
                Parallel.forRange((floats + BLOCK - 1) / BLOCK, 1, this);
            }
        }

        @Override
        public void run(long from, long to) {
            long begin = from * BLOCK;
            long end = Math.min(to * BLOCK, partialBytes / FLOAT_BYTES);
            try (Session session = Session.acquire()) {
                for (long at = begin; at < end; at += BLOCK) {
                    Executable add = flat(session, KIND_ADD, Math.min(BLOCK, end - at), ElementType.F32);
                    for (long slice = 1; slice < slices; slice++) {
                        add.convert(session, packed + slice * partialBytes + at * FLOAT_BYTES,
                            packed + at * FLOAT_BYTES);
                    }
                }
            }
        }
    }
}
