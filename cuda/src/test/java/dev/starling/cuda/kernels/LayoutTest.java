package dev.starling.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.HashMap;
import java.util.Map;
import java.util.SplittableRandom;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Layouts compared with a plain walk over all elements. */
class LayoutTest {
    private final Scope scope = Scope.open();

    @AfterEach
    void close() {
        scope.close();
    }

    private static Tensor zeros(long... shape) {
        return Device.with(Device.reference(), () -> Tensor.zeros(shape));
    }

    @Test
    void mergesContiguousDimensions() {
        Layout layout = Layout.of(Shape.of(2, 3, 4), zeros(2, 3, 4), zeros(2, 3, 4));
        assertThat(layout.rank()).isEqualTo(1);
        assertThat(layout.isDense(0)).isTrue();
        Tensor last = zeros(2, 4, 5, 3).permute(0, 3, 1, 2);
        assertThat(Layout.of(last.shape(), last, last).rank()).isEqualTo(1);
        assertThat(Layout.rowMajor(last.shape(), last, last).rank()).isEqualTo(3);
        assertThat(Layout.of(Shape.of(2, 3, 4), zeros(2, 3, 4), zeros(3, 1)).rank()).isEqualTo(3);
        assertThat(Layout.of(Shape.of(2, 3, 4), zeros(2, 3, 4), zeros(4)).rank()).isEqualTo(2);
        assertThat(Layout.of(Shape.scalar(), zeros(), zeros()).count()).isEqualTo(1);
    }

    @Test
    void walksEveryElementOnceWithAnySizeOfPieces() {
        Tensor y = zeros(7, 5, 6);
        Tensor x = zeros(6, 5, 9).permute(2, 1, 0).narrow(0, 1, 7);
        Tensor b = zeros(5, 1);
        for (long limit : new long[] {1, 2, 7, 29, 30, 31, 100, 209, 210, 1000}) {
            Map<Long, String> seen = new HashMap<>();
            Layout.of(y.shape(), y, x, b).inPieces(limit, (layout, offsets) -> {
                assertThat(layout.count()).isBetween(1L, limit);
                walk(layout, offsets, seen);
            });
            Map<Long, String> expected = new HashMap<>();
            for (int i = 0; i < 7; i++) {
                for (int j = 0; j < 5; j++) {
                    for (int k = 0; k < 6; k++) {
                        long at = i * x.stride(0) + j * x.stride(1) + k * x.stride(2);
                        expected.put(30L * i + 6 * j + k, at + " " + j);
                    }
                }
            }
            assertThat(seen).as("limit " + limit).isEqualTo(expected);
        }
    }

    /** Walks a piece by the struct that a kernel gets, as {@code offsets()} of the prelude does. */
    private static void walk(Layout layout, long[] first, Map<Long, String> seen) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment s = arena.allocate(Layout.bytes(3), 8);
            layout.write(s, 0, 3);
            int rank = s.get(ValueLayout.JAVA_INT, 0);
            int count = s.get(ValueLayout.JAVA_INT, 4);
            for (int i = 0; i < count; i++) {
                long[] at = first.clone();
                int rest = i;
                for (int d = rank - 1; d >= 0; d--) {
                    int outer = d == 0 ? 0 : divide(s, rest, d);
                    int inner = d == 0 ? rest : rest - outer * s.get(ValueLayout.JAVA_INT, 8 + 4 * d);
                    for (int k = 0; k < 3; k++) {
                        at[k] += inner * s.get(ValueLayout.JAVA_LONG, 200 + 8 * (16 * k + d));
                    }
                    rest = outer;
                }
                assertThat(seen.put(at[0], at[1] + " " + at[2])).isNull();
            }
        }
    }

    private static int divide(MemorySegment s, int i, int d) {
        long multiplier = Integer.toUnsignedLong(s.get(ValueLayout.JAVA_INT, 72 + 4 * d));
        int shift = s.get(ValueLayout.JAVA_INT, 136 + 4 * d);
        return (int) ((multiplier * i >>> 32) + i >>> shift);
    }

    @Test
    void dividesExactlyByMultiplication() {
        SplittableRandom random = new SplittableRandom(5);
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment s = arena.allocate(Layout.bytes(1), 8);
            for (int n = 0; n < 300; n++) {
                long size = n < 100 ? n + 2 : random.nextLong(2, 1 << 28);
                Tensor strided = zeros(2, 1).expand(Shape.of(2, size));
                Layout layout = Layout.rowMajor(strided.shape(), strided);
                assertThat(layout.size(layout.rank() - 1)).isEqualTo(size);
                layout.write(s, 0, 1);
                for (int i : new int[] {0, 1, (int) size - 1, (int) size, (int) (2 * size - 1), (1 << 30) - 1,
                    random.nextInt(1 << 30)}) {
                    assertThat(divide(s, i, layout.rank() - 1)).isEqualTo((int) (i / size));
                }
            }
        }
    }
}
