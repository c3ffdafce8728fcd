package dev.starling.distributed.collective.reduce;

import static dev.starling.distributed.collective.reduce.ReduceKernels.ALL;

import dev.starling.tensor.DType;
import java.lang.invoke.MethodHandles;
import java.nio.ByteOrder;
import jdk.incubator.vector.DoubleVector;
import jdk.incubator.vector.FloatVector;
import jdk.incubator.vector.IntVector;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.ShortVector;
import jdk.incubator.vector.Vector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorShape;
import jdk.incubator.vector.VectorSpecies;

/** The template of {@link VectorReduceLoops}. Only its copies are initialised, never the class itself. */
final class VectorReduceLoop implements VectorReduceLoops.Loop {
    private static final VectorReduceLoops.Kind KIND = kind();
    private static final boolean BRAIN = KIND.type() == DType.BF16;
    private static final boolean HALF = KIND.type() == DType.F16;
    private static final boolean DOUBLE = KIND.type() == DType.F64;
    private static final int SOURCES = KIND.sources();
    private static final int TARGETS = KIND.targets();
    private static final boolean CONTINUES = KIND.continues();
    private static final boolean SCALED = KIND.scaled();
    private static final VectorOperators.Associative OPERATOR = KIND.operator();
    private static final VectorSpecies<Object> SPECIES = species();
    private static final VectorSpecies<Integer> INTS = IntVector.SPECIES_PREFERRED;
    private static final VectorSpecies<Short> SHORTS = ShortVector.SPECIES_PREFERRED.withShape(
        VectorShape.forBitSize(INTS.vectorBitSize() / 2));
    private static final int LANES = SPECIES.length();
    private static final int BYTES = KIND.type().bytes();
    private static final int PARTIAL_BYTES = SPECIES.elementSize() / 8;
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    VectorReduceLoop() {
    }

    private static VectorReduceLoops.Kind kind() {
        try {
            return MethodHandles.classData(MethodHandles.lookup(), "_", VectorReduceLoops.Kind.class);
        } catch (IllegalAccessException e) {
            throw new AssertionError(e);
        }
    }

    @SuppressWarnings("unchecked")
    private static VectorSpecies<Object> species() {
        return (VectorSpecies<Object>) (VectorSpecies<?>) switch (KIND.type()) {
            case F32, BF16, F16 -> FloatVector.SPECIES_PREFERRED;
            case F64 -> DoubleVector.SPECIES_PREFERRED;
            case I32 -> IntVector.SPECIES_PREFERRED;
            case I64 -> LongVector.SPECIES_PREFERRED;
            default -> throw new AssertionError(KIND);
        };
    }

    @Override
    public void run(long[] sources, int first, long[] targets, long offset, long partial, int n, double scale) {
        long s0 = sources[first] + offset;
        long s1 = SOURCES > 1 ? sources[first + 1] + offset : 0;
        long s2 = SOURCES > 2 ? sources[first + 2] + offset : 0;
        long s3 = SOURCES > 3 ? sources[first + 3] + offset : 0;
        long t0 = TARGETS > 0 ? targets[0] + offset : 0;
        long t1 = TARGETS > 1 ? targets[1] + offset : 0;
        long t2 = TARGETS > 2 ? targets[2] + offset : 0;
        long t3 = TARGETS > 3 ? targets[3] + offset : 0;
        Vector<Object> factor = factor(scale);
        for (int i = 0; i < n; i += LANES) {
            long at = (long) i * BYTES;
            long part = partial + (long) i * PARTIAL_BYTES;
            Vector<Object> v = load(s0 + at);
            if (CONTINUES) {
                v = SPECIES.fromMemorySegment(ALL, part, ORDER).lanewise(OPERATOR, v);
            }
            if (SOURCES > 1) {
                v = v.lanewise(OPERATOR, load(s1 + at));
            }
            if (SOURCES > 2) {
                v = v.lanewise(OPERATOR, load(s2 + at));
            }
            if (SOURCES > 3) {
                v = v.lanewise(OPERATOR, load(s3 + at));
            }
            if (SCALED) {
                v = v.lanewise(VectorOperators.MUL, factor);
            }
            if (TARGETS == 0) {
                v.intoMemorySegment(ALL, part, ORDER);
                continue;
            }
            Vector<?> out = BRAIN ? toBrain(v) : HALF ? toHalf(v) : v;
            out.intoMemorySegment(ALL, t0 + at, ORDER);
            if (TARGETS > 1) {
                out.intoMemorySegment(ALL, t1 + at, ORDER);
            }
            if (TARGETS > 2) {
                out.intoMemorySegment(ALL, t2 + at, ORDER);
            }
            if (TARGETS > 3) {
                out.intoMemorySegment(ALL, t3 + at, ORDER);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static Vector<Object> factor(double scale) {
        if (!SCALED) {
            return SPECIES.broadcast(1);
        }
        return (Vector<Object>) (Vector<?>) (DOUBLE
            ? DoubleVector.broadcast(DoubleVector.SPECIES_PREFERRED, scale)
            : FloatVector.broadcast(FloatVector.SPECIES_PREFERRED, (float) scale));
    }

    @SuppressWarnings("unchecked")
    private static Vector<Object> load(long address) {
        if (BRAIN || HALF) {
            IntVector bits = (IntVector) SHORTS.fromMemorySegment(ALL, address, ORDER)
                .convertShape(VectorOperators.S2I, INTS, 0);
            return (Vector<Object>) (Vector<?>) (BRAIN
                ? bits.lanewise(VectorOperators.LSHL, 16).reinterpretAsFloats() : fromHalf(bits));
        }
        return SPECIES.fromMemorySegment(ALL, address, ORDER);
    }

    /** Shifts the exponent into place and corrects its bias by a product, which is exact, also for subnormal values. */
    private static FloatVector fromHalf(IntVector bits) {
        IntVector magnitude = bits.and(0x7fff).lanewise(VectorOperators.LSHL, 13);
        IntVector finite = magnitude.reinterpretAsFloats().mul(0x1p112f).reinterpretAsInts();
        IntVector all = finite.blend(magnitude.or(0x7f80_0000), magnitude.compare(VectorOperators.GE, 0x0f80_0000));
        return all.or(bits.and(0x8000_0000)).reinterpretAsFloats();
    }

    /**
     * Rounds to the nearest half float, ties to even; NaN stays NaN. Subnormal results are rounded by adding 0.5, whose
     * last bit has the value of their last bit.
     */
    private static Vector<?> toHalf(Vector<?> value) {
        FloatVector v = (FloatVector) value;
        IntVector bits = v.reinterpretAsInts();
        IntVector magnitude = bits.and(0x7fff_ffff);
        IntVector odd = magnitude.lanewise(VectorOperators.LSHR, 13).and(1);
        IntVector normal = magnitude.add(0xfff - (112 << 23)).add(odd).lanewise(VectorOperators.LSHR, 13).min(0x7c00);
        IntVector tiny = magnitude.reinterpretAsFloats().add(0.5f).reinterpretAsInts().sub(0x3f00_0000);
        IntVector rounded = normal.blend(tiny, magnitude.compare(VectorOperators.LT, 0x3880_0000))
            .blend(0x7e00, magnitude.compare(VectorOperators.GT, 0x7f80_0000));
        return rounded.or(bits.lanewise(VectorOperators.LSHR, 16).and(0x8000))
            .convertShape(VectorOperators.I2S, SHORTS, 0);
    }

    /** Rounds to the nearest brain float, ties to even; NaN stays NaN. */
    private static Vector<?> toBrain(Vector<?> value) {
        FloatVector v = (FloatVector) value;
        IntVector bits = v.reinterpretAsInts();
        IntVector high = bits.lanewise(VectorOperators.LSHR, 16);
        IntVector rounded = bits.add(0x7fff).add(high.and(1)).lanewise(VectorOperators.LSHR, 16);
        IntVector chosen = rounded.blend(high.or(0x40), v.compare(VectorOperators.NE, v).cast(INTS));
        return chosen.convertShape(VectorOperators.I2S, SHORTS, 0);
    }
}
