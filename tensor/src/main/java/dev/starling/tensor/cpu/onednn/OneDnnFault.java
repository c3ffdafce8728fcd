package dev.starling.tensor.cpu.onednn;

import static dev.starling.tensor.cpu.onednn.ElementType.BF16;
import static dev.starling.tensor.cpu.onednn.ElementType.F16;
import static dev.starling.tensor.cpu.onednn.ElementType.F32;

import java.util.EnumSet;
import java.util.Set;
import java.util.function.IntPredicate;
import java.util.function.Predicate;
import java.util.stream.IntStream;
import java.util.stream.LongStream;

/**
 * Faults of oneDNN {@value #VERSION} on valid convolutions: wrong results and crashes. Each row states the pass, the
 * element types, the instruction set on which the fault was observed, the geometries, and how callers avoid it. Rows
 * for 16-bit types include f16 because both types share the kernel; bf16 was observed.
 */
public enum OneDnnFault {
    /** Taps that read only padding get a gradient of stale memory, up to NaN, if the stride is more than 1. */
    GARBAGE_FOR_UNSEEN_TAPS(Pass.WEIGHTS, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.CUT,
        shape -> any(shape, i -> hasUnreadTap(shape, i))),
    /** Gradients of weights are wrong, by up to their size, if the depth is less than the kernel. */
    WRONG_ON_SHALLOW_IMAGES(Pass.WEIGHTS, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.in()[0] <= reach(shape, 0)),
    /** Gradients of weights are 0: observed with kernel depth 4, stride 2, padding 3 and depths 2 to 4. */
    ZERO_ON_DEEP_PADDING(Pass.WEIGHTS, EnumSet.of(F32), OneDnn.Isa.AVX512, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.stride()[0] > 1 && shape.in()[0] <= reach(shape, 0) + 1
            && 2 * Math.max(shape.padLow()[0], shape.padHigh()[0]) > reach(shape, 0)),
    /**
     * All rows except the first are wrong with output width 1 and a stride along the width: observed with one input
     * channel per group. PyTorch reports the same for bf16 on AMX in three dimensions with any channels.
     */
    WRONG_ROWS_OF_ONE_COLUMN(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX512, Remedy.CUT,
        shape -> shape.spatialDims() > 1 && shape.out()[shape.spatialDims() - 1] == 1
            && shape.stride()[shape.spatialDims() - 1] > 1),
    /**
     * Positions of images of depth 1 are not written if the kernel is deeper: observed with one input channel per
     * group.
     */
    UNWRITTEN_PLACES_OF_FLAT_IMAGES(Pass.FORWARD, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.inChannels() == shape.groups() && shape.in()[0] <= reach(shape, 0)),
    /** oneDNN's developers report wrong values on AMX if a stride along height or depth exceeds the kernel. */
    WRONG_WHERE_STRIDES_SKIP_ROWS(Pass.FORWARD, EnumSet.of(BF16, F16), OneDnn.Isa.AMX, Remedy.WIDEN,
        shape -> max(shape.kernel()) > 1 && any(shape, i -> i < shape.spatialDims() - 1
            && shape.stride()[i] > reach(shape, i) + 1)),
    /** The process crashes (SIGSEGV) if no tap reads a pixel and the dilation is more than 1. */
    CRASH_WHERE_NO_TAP_MEETS(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> any(shape, i -> isUnread(shape, i))),
    /** The process crashes, or the primitive cannot be generated, if stride, padding and dilation exceed 30 bits. */
    CRASH_ON_HUGE_STEPS(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> any(shape, i -> Math.max(shape.stride()[i], Math.max(shape.padLow()[i], shape.dilation()[i]))
            >= 1 << 30)),
    /**
     * A kernel of one tap writes beyond its scratch memory if channels are fewer than a vector and strides exceed 1.
     */
    OVERRUN_ON_STRIDED_POINTS(Pass.WEIGHTS, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> shape.spatialDims() < 3 && shape.groups() == 1 && shape.inChannels() < vector()
            && max(shape.kernel()) == 1 && max(shape.stride()) > 1),
    /** After a primitive that could not be generated, its thread cannot generate any other. */
    STICKY_ERROR(Pass.FORWARD, EnumSet.allOf(ElementType.class), OneDnn.Isa.SSE41, Remedy.OTHER_THREAD,
        shape -> false);

    /** The version in which these faults were observed. */
    public static final String VERSION = "3.11";

    private final Pass pass;
    private final Set<ElementType> types;
    private final OneDnn.Isa isa;
    private final Remedy remedy;
    private final Predicate<ConvolutionShape> where;

    OneDnnFault(Pass pass, Set<ElementType> types, OneDnn.Isa isa, Remedy remedy, Predicate<ConvolutionShape> where) {
        this.pass = pass;
        this.types = types;
        this.isa = isa;
        this.remedy = remedy;
        this.where = where;
    }

    /** How callers avoid a fault. */
    public enum Remedy {
        /** Parts that read only padding, and pixels that no tap reads, are left out; the rest is not affected. */
        CUT,
        /** The image is copied with its padding, so that oneDNN pads nothing. */
        PADDED_COPY,
        /** The convolution is computed in f32. */
        WIDEN,
        /** The primitive is created again on another thread. */
        OTHER_THREAD
    }

    /** Returns whether a fault that f32 does not have may occur on this processor. */
    public static boolean needsWidening(ElementType type, Pass pass, ConvolutionShape shape) {
        return WRONG_WHERE_STRIDES_SKIP_ROWS.affects(type, pass, shape)
            && OneDnn.has(WRONG_WHERE_STRIDES_SKIP_ROWS.isa);
    }

    /** Returns whether a fault may occur in a convolution in which every tap and position reads a pixel. */
    public static boolean affectsWhole(ElementType type, Pass pass, ConvolutionShape shape) {
        return OVERRUN_ON_STRIDED_POINTS.affects(type, pass, shape) || needsPaddedCopy(type, pass, shape);
    }

    /** Returns whether a fault may occur that requires the image to be padded before oneDNN reads it. */
    public static boolean needsPaddedCopy(ElementType type, Pass pass, ConvolutionShape shape) {
        return WRONG_ON_SHALLOW_IMAGES.affects(type, pass, shape) || ZERO_ON_DEEP_PADDING.affects(type, pass, shape)
            || UNWRITTEN_PLACES_OF_FLAT_IMAGES.affects(type, pass, shape);
    }

    /** Returns whether this fault may occur in a convolution, on any processor. */
    public boolean affects(ElementType type, Pass requested, ConvolutionShape shape) {
        return requested == pass && types.contains(type) && where.test(shape);
    }

    Pass pass() {
        return pass;
    }

    Set<ElementType> types() {
        return types;
    }

    /** Returns the instruction set on which the fault was observed; processors with a smaller set use other kernels. */
    OneDnn.Isa isa() {
        return isa;
    }

    Remedy remedy() {
        return remedy;
    }

    /**
     * Channels of the widest vectors, those of AVX-512; the overrun starts below the width of the processor's own
     * vectors.
     */
    private static int vector() {
        return 16;
    }

    private static long max(long[] values) {
        long max = 0;
        for (long value : values) {
            max = Math.max(max, value);
        }
        return max;
    }

    private static boolean any(ConvolutionShape shape, IntPredicate condition) {
        return IntStream.range(0, shape.spatialDims()).anyMatch(condition);
    }

    /** Returns the distance from the first tap to the last in pixels. */
    private static long reach(ConvolutionShape shape, int i) {
        return (shape.kernel()[i] - 1) * shape.dilation()[i];
    }

    private static boolean hasUnreadTap(ConvolutionShape shape, int i) {
        return LongStream.range(0, shape.kernel()[i]).anyMatch(tap -> !reads(shape, i, tap));
    }

    private static boolean isUnread(ConvolutionShape shape, int i) {
        return LongStream.range(0, shape.kernel()[i]).noneMatch(tap -> reads(shape, i, tap));
    }

    /** Returns whether a tap reads a pixel at some position. */
    private static boolean reads(ConvolutionShape shape, int i, long tap) {
        long shift = shape.padLow()[i] - tap * shape.dilation()[i];
        long place = Math.max(0, Math.ceilDiv(shift, shape.stride()[i]));
        return place < shape.out()[i] && place * shape.stride()[i] - shift < shape.in()[i];
    }
}
