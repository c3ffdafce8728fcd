package dev.starling.tensor.cpu.onednn;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * One pass of a convolution, compiled for a number of samples. The primitive works on channels-last data, the fastest
 * layout that strides can express, and on weights in a packing of its choice; data in other layouts are reordered.
 */
final class ConvolutionKernel implements Compiled {
    private static final int SOURCE = 0;
    private static final int WEIGHTS = 1;
    private static final int DESTINATION = 2;
    private static final int BIAS = 3;

    private final Pass pass;
    private final Executable primitive;
    private final long packedDesc;
    private final long[] packing;
    /** Each is {@code null} if the primitive works on the caller's data in place. */
    private final @Nullable Executable weights;
    private final @Nullable Executable source;
    private final @Nullable Executable destination;
    private final long sourceBytes;
    private final long destinationBytes;

    private ConvolutionKernel(Pass pass, Executable primitive, Layout userWeights, @Nullable Executable source,
                              @Nullable Executable destination, long sourceBytes, long destinationBytes) {
        this.pass = pass;
        this.primitive = primitive;
        this.source = source;
        this.destination = destination;
        this.sourceBytes = sourceBytes;
        this.destinationBytes = destinationBytes;
        packedDesc = primitive.desc(pass == Pass.WEIGHTS ? Dnnl.QUERY_DIFF_WEIGHTS : Dnnl.QUERY_WEIGHTS);
        packing = Dnnl.description(packedDesc);
        long user = userWeights.desc();
        try {
            weights = Dnnl.equal(packedDesc, user) ? null
                : pass == Pass.WEIGHTS ? Executable.reorder(packedDesc, user, false)
                : Executable.reorder(user, packedDesc, false);
        } finally {
            Dnnl.destroy(Dnnl.Kind.DESC, user);
        }
    }

    /** Gradients of weights and bias are computed in single precision, because those of several slices are summed. */
    static ConvolutionKernel compile(Pass pass, ElementType type, ConvolutionShape shape, long samples,
                                     @Nullable Layout userSource, Layout userWeights,
                                     @Nullable Layout userDestination, boolean bias) {
        ElementType weightType = pass == Pass.WEIGHTS ? ElementType.F32 : type;
        Layout nearSource = Layout.channelsLast(type, shape.sourceDims(samples));
        Layout nearDestination = Layout.channelsLast(type, shape.destinationDims(samples));
        long[] descs = {nearSource.desc(), Dnnl.anyLayout(weightType, shape.weightDims()), nearDestination.desc(),
            bias ? Dnnl.strided(weightType, new long[] {shape.outChannels()}, new long[] {1}) : 0};
        try {
            Executable primitive = primitive(pass, type, shape, descs);
            Executable source = userSource == null ? null
                : reorder(userSource, nearSource, pass == Pass.DATA);
            Executable destination = userDestination == null ? null
                : reorder(userDestination, nearDestination, pass == Pass.FORWARD);
            return new ConvolutionKernel(pass, primitive, userWeights, source, destination, Dnnl.size(descs[SOURCE]),
                Dnnl.size(descs[DESTINATION]));
        } finally {
            for (long desc : descs) {
                Dnnl.destroy(Dnnl.Kind.DESC, desc);
            }
        }
    }

    /** For a backward pass the forward pass is described too: oneDNN requires it as a hint. */
    private static Executable primitive(Pass pass, ElementType type, ConvolutionShape shape, long[] descs) {
        long attributes = Dnnl.attributes(false);
        long forwardWeights = Dnnl.anyLayout(type, shape.weightDims());
        long forward = 0;
        try (Arena arena = Arena.ofConfined()) {
            long geometry = geometry(arena, shape);
            forward = Dnnl.convolution(Dnnl.FORWARD_TRAINING, descs[SOURCE], forwardWeights,
                pass == Pass.FORWARD ? descs[BIAS] : 0, descs[DESTINATION], geometry, attributes);
            long chosen = switch (pass) {
                case FORWARD -> forward;
                case DATA -> Dnnl.convolutionData(descs[SOURCE], descs[WEIGHTS], descs[DESTINATION], geometry, forward,
                    attributes);
                case WEIGHTS -> Dnnl.convolutionWeights(descs[SOURCE], descs[WEIGHTS], descs[BIAS],
                    descs[DESTINATION], geometry, forward, attributes);
            };
            if (pass == Pass.FORWARD) {
                forward = 0;
            }
            long[] exact = descs.clone();
            exact[WEIGHTS] = Dnnl.query(chosen, pass == Pass.WEIGHTS ? Dnnl.QUERY_DIFF_WEIGHTS : Dnnl.QUERY_WEIGHTS);
            return new Executable(chosen, pass.arguments(descs[BIAS] != 0), exact);
        } finally {
            Dnnl.destroy(Dnnl.Kind.PRIMITIVE_DESC, forward);
            Dnnl.destroy(Dnnl.Kind.DESC, forwardWeights);
            Dnnl.destroy(Dnnl.Kind.ATTRIBUTES, attributes);
        }
    }

    /** Strides, dilations (0 means none), low and high padding, each in a block of 8 numbers. */
    private static long geometry(Arena arena, ConvolutionShape shape) {
        MemorySegment blocks = arena.allocate(4 * 64, 8);
        for (int i = 0; i < shape.spatialDims(); i++) {
            blocks.setAtIndex(ValueLayout.JAVA_LONG, i, shape.stride()[i]);
            blocks.setAtIndex(ValueLayout.JAVA_LONG, 8 + i, shape.dilation()[i] - 1);
            blocks.setAtIndex(ValueLayout.JAVA_LONG, 16 + i, shape.padLow()[i]);
            blocks.setAtIndex(ValueLayout.JAVA_LONG, 24 + i, shape.padHigh()[i]);
        }
        return blocks.address();
    }

    private static Executable reorder(Layout user, Layout near, boolean toUser) {
        long userDesc = user.desc();
        long nearDesc = near.desc();
        try {
            return toUser ? Executable.reorder(nearDesc, userDesc, false)
                : Executable.reorder(userDesc, nearDesc, false);
        } finally {
            Dnnl.destroy(Dnnl.Kind.DESC, userDesc);
            Dnnl.destroy(Dnnl.Kind.DESC, nearDesc);
        }
    }

    /** Returns whether the primitive reads the caller's weights without packing. */
    boolean readsUserWeights() {
        return weights == null;
    }

    boolean packsLike(ConvolutionKernel other) {
        return Dnnl.equal(packedDesc, other.packedDesc);
    }

    /** Returns a description of the packing, equal for equal packings. */
    long[] packing() {
        return packing;
    }

    long packedBytes() {
        return Dnnl.size(packedDesc);
    }

    /** Packs weights or, in the pass by weights, unpacks their gradient. */
    void reorderWeights(Session session, long from, long to) {
        Objects.requireNonNull(weights).reorder(session, from, to);
    }

    /** Copies packed weights into the packing of another kernel. Rare, so nothing is cached. */
    void repackWeights(Session session, long from, ConvolutionKernel other, long to) {
        try (Executable repack = Executable.reorder(packedDesc, other.packedDesc, false)) {
            repack.reorder(session, from, to);
        }
    }

    /** Runs the pass on the caller's data, with weights (or their gradient) in the primitive's packing. */
    void run(Session session, long sourceAddress, long packedWeights, long destinationAddress, long bias) {
        long nearSource = source == null ? sourceAddress : session.memory(Session.Use.SOURCE, sourceBytes);
        long nearDestination = destination == null ? destinationAddress
            : session.memory(Session.Use.DESTINATION, destinationBytes);
        if (source != null && pass != Pass.DATA) {
            source.reorder(session, sourceAddress, nearSource);
        }
        if (destination != null && pass != Pass.FORWARD) {
            destination.reorder(session, destinationAddress, nearDestination);
        }
        primitive.bind(SOURCE, nearSource);
        primitive.bind(WEIGHTS, packedWeights);
        primitive.bind(DESTINATION, nearDestination);
        if (bias != 0) {
            primitive.bind(BIAS, bias);
        }
        primitive.run(session);
        if (source != null && pass == Pass.DATA) {
            source.reorder(session, nearSource, sourceAddress);
        }
        if (destination != null && pass == Pass.FORWARD) {
            destination.reorder(session, nearDestination, destinationAddress);
        }
    }

    String implementation() {
        return primitive.implementation();
    }

    @Override
    public void close() {
        close(source);
        close(destination);
        close(weights);
        primitive.close();
    }

    private static void close(@Nullable Executable executable) {
        if (executable != null) {
            executable.close();
        }
    }
}
