package dev.starling.tensor.cpu.rows;

import static dev.starling.tensor.host.HostMemory.ALL;

import java.nio.ByteOrder;
import jdk.incubator.vector.LongVector;
import jdk.incubator.vector.VectorOperators;
import jdk.incubator.vector.VectorSpecies;

/** The loop of {@link FiniteScan} with the Vector API. */
final class VectorFiniteScan {
    static final FiniteScan.Carries LOOP = VectorFiniteScan::carries;
    private static final VectorSpecies<Long> S = LongVector.SPECIES_PREFERRED;
    private static final int BYTES = S.vectorByteSize();
    private static final ByteOrder ORDER = ByteOrder.nativeOrder();

    private VectorFiniteScan() { }

    private static LongVector load(long address) {
        return LongVector.fromMemorySegment(S, ALL, address, ORDER);
    }

    private static long carries(long x, long bytes, long exponent, long lowest) {
        LongVector f0 = LongVector.zero(S);
        LongVector f1 = f0;
        LongVector f2 = f0;
        LongVector f3 = f0;
        long at = 0;
        for (; at + 4L * BYTES <= bytes; at += 4L * BYTES) {
            f0 = f0.or(load(x + at).and(exponent).add(lowest));
            f1 = f1.or(load(x + at + BYTES).and(exponent).add(lowest));
            f2 = f2.or(load(x + at + 2L * BYTES).and(exponent).add(lowest));
            f3 = f3.or(load(x + at + 3L * BYTES).and(exponent).add(lowest));
        }
        return f0.or(f1).or(f2.or(f3)).reduceLanes(VectorOperators.OR)
                | FiniteScan.carries(x + at, bytes - at, exponent, lowest);
    }
}
