package dev.starling.tensor.cpu.rows;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** One number that is not finite, anywhere among numbers that are, in every kind of loop. */
class FiniteScanTest {
    private static final int[] COUNTS = {1, 2, 3, 5, 16, 31, 33, 4096, 8191, 9000, 1 << 20};
    private static final double[] OTHERS = {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY};

    @ParameterizedTest
    @EnumSource(names = {"F64", "F32", "BF16", "F16"})
    void findsWhatIsNotFinite(DType type) {
        SplittableRandom random = new SplittableRandom(type.ordinal());
        for (RowLoops loops : RowLoops.all()) {
            for (int count : COUNTS) {
                try (Arena arena = Arena.ofConfined()) {
                    long bytes = (long) count * type.bytes();
                    long x = arena.allocate(bytes + 8, 8).address();
                    for (int i = 0; i < count; i++) {
                        double value = i % 3 == 0 ? type == DType.F16 ? 65504 : 3e38 : random.nextDouble(-2, 2);
                        HostMemory.putDouble(type, x + (long) i * type.bytes(), value);
                    }
                    HostMemory.putDouble(DType.F16, x + bytes, Double.NaN);
                    assertThat(FiniteScan.isFinite(x, bytes, type, loops.carries())).isTrue();
                    for (double other : OTHERS) {
                        long at = x + (long) random.nextInt(count) * type.bytes();
                        double before = HostMemory.getDouble(type, at);
                        HostMemory.putDouble(type, at, other);
                        assertThat(FiniteScan.isFinite(x, bytes, type, loops.carries())).as("%s", count).isFalse();
                        HostMemory.putDouble(type, at, before);
                    }
                    HostMemory.putDouble(type, x + bytes - type.bytes(), Double.NaN);
                    assertThat(FiniteScan.isFinite(x, bytes, type, loops.carries())).isFalse();
                }
            }
        }
    }
}
