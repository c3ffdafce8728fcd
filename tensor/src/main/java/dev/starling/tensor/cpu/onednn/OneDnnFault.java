package dev.starling.tensor.cpu.onednn;

import static dev.starling.tensor.cpu.onednn.ElementType.BF16;
import static dev.starling.tensor.cpu.onednn.ElementType.F16;
import static dev.starling.tensor.cpu.onednn.ElementType.F32;

import java.util.EnumSet;
import java.util.Set;
import java.util.function.Predicate;

/**
 * What oneDNN {@value #VERSION} computes wrong, or ends the process for, on valid convolutions. Each row names the
 * pass, the element types, the instruction set on which it was observed, the geometries, and how its callers go round
 * it. Rows for 16-bit types include f16 because both types share the kernel; bf16 was observed.
 */
public enum OneDnnFault {
    /** Taps that see only padding get a gradient of stale memory, up to NaN, where the stride is more than 1. */
    GARBAGE_FOR_UNSEEN_TAPS(Pass.WEIGHTS, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.CUT,
        shape -> any(shape, i -> hasUnseenTap(shape, i))),
    /** Gradients of weights differ from the right ones by up to their size where the depth is less than the kernel. */
    WRONG_ON_SHALLOW_IMAGES(Pass.WEIGHTS, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.in()[0] <= reach(shape, 0)),
    /** Gradients of weights are 0: seen with kernel depth 4, stride 2, padding 3 and depths 2 to 4. */
    ZERO_ON_DEEP_PADDING(Pass.WEIGHTS, EnumSet.of(F32), OneDnn.Isa.AVX512, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.stride()[0] > 1 && shape.in()[0] <= reach(shape, 0) + 1
            && 2 * Math.max(shape.padLow()[0], shape.padHigh()[0]) > reach(shape, 0)),
    /**
     * All rows but the first are wrong with output width 1 and a stride along the width: seen with one input channel a
     * group. PyTorch reports the same of bf16 on AMX in three dimensions with any channels.
     */
    WRONG_ROWS_OF_ONE_COLUMN(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX512, Remedy.CUT,
        shape -> shape.spatialDims() > 1 && shape.out()[shape.spatialDims() - 1] == 1
            && shape.stride()[shape.spatialDims() - 1] > 1),
    /** Places of images of depth 1 are not written where the kernel is deeper: seen with one input channel a group. */
    UNWRITTEN_PLACES_OF_FLAT_IMAGES(Pass.FORWARD, EnumSet.of(BF16, F16), OneDnn.Isa.AVX512_BF16, Remedy.PADDED_COPY,
        shape -> shape.spatialDims() == 3 && shape.inChannels() == shape.groups() && shape.in()[0] <= reach(shape, 0)),
    /** oneDNN's developers report wrong values where a stride along height or depth exceeds the kernel, on AMX. */
    WRONG_WHERE_STRIDES_SKIP_ROWS(Pass.FORWARD, EnumSet.of(BF16, F16), OneDnn.Isa.AMX, Remedy.WIDEN,
        shape -> max(shape.kernel()) > 1 && any(shape, i -> i < shape.spatialDims() - 1
            && shape.stride()[i] > reach(shape, i) + 1)),
    /** The process ends (SIGSEGV) where no tap meets the image and the dilation is more than 1. */
    CRASH_WHERE_NO_TAP_MEETS(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> any(shape, i -> isUnseen(shape, i))),
    /** The process ends, or the primitive cannot be generated, where stride, padding and dilation pass 30 bits. */
    CRASH_ON_HUGE_STEPS(Pass.FORWARD, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> any(shape, i -> Math.max(shape.stride()[i], Math.max(shape.padLow()[i], shape.dilation()[i]))
            >= 1 << 30)),
    /** A kernel of one tap writes beyond its scratch memory, where channels are fewer than a vector and strides > 1. */
    OVERRUN_ON_STRIDED_POINTS(Pass.WEIGHTS, EnumSet.of(F32, BF16, F16), OneDnn.Isa.AVX2, Remedy.CUT,
        shape -> shape.spatialDims() < 3 && shape.groups() == 1 && shape.inChannels() < vector()
            && max(shape.kernel()) == 1 && max(shape.stride()) > 1),
    /** After one primitive that could not be generated, its thread can generate no other. */
    STICKY_ERROR(Pass.FORWARD, EnumSet.allOf(ElementType.class), OneDnn.Isa.SSE41, Remedy.OTHER_THREAD,
        shape -> false);

    /** The version in which these were observed. */
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

    /** How callers keep away from a fault. */
    public enum Remedy {
        /** Parts that see only padding, and pixels that no tap reads, are cut off: what remains is not of this kind. */
        CUT,
        /** The image is copied with its padding, so that oneDNN pads nothing. */
        PADDED_COPY,
        /** The convolution is computed in f32. */
        WIDEN,
        /** The primitive is created again on another thread. */
        OTHER_THREAD
    }

    /** Tells whether a fault may strike on this processor that f32 does not have. */
    public static boolean needsWidening(ElementType type, Pass pass, ConvolutionShape shape) {
        return WRONG_WHERE_STRIDES_SKIP_ROWS.strikes(type, pass, shape)
            && OneDnn.has(WRONG_WHERE_STRIDES_SKIP_ROWS.isa);
    }

    /** Tells whether a fault may strike a convolution of which every tap and place sees a pixel. */
    public static boolean strikesWhole(ElementType type, Pass pass, ConvolutionShape shape) {
        return OVERRUN_ON_STRIDED_POINTS.strikes(type, pass, shape) || needsPaddedCopy(type, pass, shape);
    }

    /** Tells whether one of these faults may strike, so that the image must be padded before oneDNN sees it. */
    public static boolean needsPaddedCopy(ElementType type, Pass pass, ConvolutionShape shape) {
        return WRONG_ON_SHALLOW_IMAGES.strikes(type, pass, shape) || ZERO_ON_DEEP_PADDING.strikes(type, pass, shape)
            || UNWRITTEN_PLACES_OF_FLAT_IMAGES.strikes(type, pass, shape);
    }

    /** Tells whether this fault may strike a convolution, on any processor. */
    public boolean strikes(ElementType type, Pass asked, ConvolutionShape shape) {
        return asked == pass && types.contains(type) && where.test(shape);
    }

    Pass pass() {
        return pass;
    }

    Set<ElementType> types() {
        return types;
    }

    /** The instruction set on which the fault was observed; processors with less take other kernels. */
    OneDnn.Isa isa() {
        return isa;
    }

    Remedy remedy() {
        return remedy;
    }

    /** Channels of the widest vectors, of AVX-512; the overrun begins below those of the processor's own. */
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

    private interface Axis {
        boolean holds(int i);
    }

    private static boolean any(ConvolutionShape shape, Axis condition) {
        boolean any = false;
        for (int i = 0; i < shape.spatialDims(); i++) {
            any |= condition.holds(i);
        }
        return any;
    }

    /** How many pixels lie between the first tap and the last. */
    private static long reach(ConvolutionShape shape, int i) {
        return (shape.kernel()[i] - 1) * shape.dilation()[i];
    }

    private static boolean hasUnseenTap(ConvolutionShape shape, int i) {
        boolean unseen = false;
        for (long tap = 0; tap < shape.kernel()[i]; tap++) {
            unseen |= !sees(shape, i, tap);
        }
        return unseen;
    }

    private static boolean isUnseen(ConvolutionShape shape, int i) {
        boolean seen = false;
        for (long tap = 0; tap < shape.kernel()[i]; tap++) {
            seen |= sees(shape, i, tap);
        }
        return !seen;
    }

    /** Tells whether a tap lies on a pixel at some place. */
    private static boolean sees(ConvolutionShape shape, int i, long tap) {
        long shift = shape.padLow()[i] - tap * shape.dilation()[i];
        long place = Math.max(0, Math.ceilDiv(shift, shape.stride()[i]));
        return place < shape.out()[i] && place * shape.stride()[i] - shift < shape.in()[i];
    }
}
