package dev.starling.tensor.cpu.rows;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.data.Offset.offset;

import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.util.SplittableRandom;
import java.util.function.IntToDoubleFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The loops over matrices of every kind, against sums in double precision. */
class RowsTest {
    private static final int[] COLUMNS = {1, 7, 8, 15, 16, 17, 64, 75};
    private static final int[] ROWS = {0, 1, 2, 13};
    private static final int GAP = 5;

    private final SplittableRandom random = new SplittableRandom(1);

    private long random(Arena arena, int count) {
        long at = arena.allocate(4L * Math.max(1, count), 4).address();
        for (int i = 0; i < count; i++) {
            HostMemory.putFloat(at + 4L * i, (float) random.nextDouble(-2, 3));
        }
        return at;
    }

    private static double at(long address, long i) {
        return HostMemory.getFloat(address + 4 * i);
    }

    private static double sum(int rows, IntToDoubleFunction term) {
        return IntStream.range(0, rows).mapToDouble(term).sum();
    }

    @Test
    void addsUpColumns() {
        for (RowLoops loops : RowLoops.all()) {
            for (int columns : COLUMNS) {
                for (int rows : ROWS) {
                    try (Arena arena = Arena.ofConfined()) {
                        moments(loops.matrix(), arena, rows, columns);
                        gradientMoments(loops.matrix(), arena, rows, columns, true);
                        gradientMoments(loops.matrix(), arena, rows, columns, false);
                        sumsAndExtremes(loops.matrix(), arena, rows, columns);
                    }
                }
            }
        }
    }

    private void moments(Rows loops, Arena arena, int rows, int columns) {
        int pitch = columns + GAP;
        long x = random(arena, rows * pitch);
        long pivot = random(arena, columns);
        long sum = random(arena, columns + 1);
        long squares = random(arena, columns + 1);
        double[] before = IntStream.range(0, columns + 1).mapToDouble(c -> at(sum, c)).toArray();
        double[] beforeSquares = IntStream.range(0, columns + 1).mapToDouble(c -> at(squares, c)).toArray();
        loops.moments(x, 4L * pitch, rows, columns, pivot, sum, squares);
        for (int i = 0; i < columns; i++) {
            int c = i;
            assertThat(at(sum, c)).isEqualTo(before[c] + sum(rows, r -> at(x, r * pitch + c) - at(pivot, c)),
                    offset(1e-4));
            assertThat(at(squares, c)).isEqualTo(beforeSquares[c]
                    + sum(rows, r -> Math.pow(at(x, r * pitch + c) - at(pivot, c), 2)), offset(1e-3));
        }
        assertThat(at(sum, columns)).isEqualTo(before[columns], offset(0.0));
        assertThat(at(squares, columns)).isEqualTo(beforeSquares[columns], offset(0.0));
    }

    private void gradientMoments(Rows loops, Arena arena, int rows, int columns, boolean gated) {
        int pitch = columns + GAP;
        long g = random(arena, rows * pitch);
        long x = random(arena, rows * pitch);
        long y = random(arena, rows * pitch);
        long mean = random(arena, columns);
        long sum = random(arena, columns);
        long product = random(arena, columns);
        double[] before = IntStream.range(0, columns).mapToDouble(c -> at(sum, c)).toArray();
        double[] beforeProducts = IntStream.range(0, columns).mapToDouble(c -> at(product, c)).toArray();
        loops.gradientMoments(g, x, gated ? y : 0, 4L * pitch, rows, columns, mean, sum, product);
        for (int i = 0; i < columns; i++) {
            int c = i;
            assertThat(at(sum, c)).isEqualTo(before[c] + sum(rows, r -> gate(gated, y, r * pitch + c)
                    * at(g, r * pitch + c)), offset(1e-4));
            assertThat(at(product, c)).isEqualTo(beforeProducts[c] + sum(rows, r -> gate(gated, y, r * pitch + c)
                    * at(g, r * pitch + c) * (at(x, r * pitch + c) - at(mean, c))), offset(1e-3));
        }
    }

    private static double gate(boolean gated, long y, int i) {
        return gated && at(y, i) <= 0 ? 0 : 1;
    }

    private void sumsAndExtremes(Rows loops, Arena arena, int rows, int columns) {
        int pitch = columns + GAP;
        long x = random(arena, rows * pitch);
        long[] results = {random(arena, columns), random(arena, columns), random(arena, columns)};
        double[][] before = new double[3][];
        for (int k = 0; k < 3; k++) {
            long result = results[k];
            before[k] = IntStream.range(0, columns).mapToDouble(c -> at(result, c)).toArray();
        }
        loops.columnSums(x, 4L * pitch, rows, columns, results[0]);
        loops.columnExtremes(x, 4L * pitch, rows, columns, results[1], true);
        loops.columnExtremes(x, 4L * pitch, rows, columns, results[2], false);
        for (int i = 0; i < columns; i++) {
            int c = i;
            assertThat(at(results[0], c)).isEqualTo(before[0][c] + sum(rows, r -> at(x, r * pitch + c)), offset(1e-4));
            assertThat(at(results[1], c)).isEqualTo(IntStream.range(0, rows).mapToDouble(r -> at(x, r * pitch + c))
                    .reduce(before[1][c], Math::max), offset(0.0));
            assertThat(at(results[2], c)).isEqualTo(IntStream.range(0, rows).mapToDouble(r -> at(x, r * pitch + c))
                    .reduce(before[2][c], Math::min), offset(0.0));
        }
    }

    @Test
    void joinsAllElements() {
        for (RowLoops loops : RowLoops.all()) {
            for (int n : new int[] {1, 5, 16, 17, 4095, 4096, 4097, 20_000}) {
                try (Arena arena = Arena.ofConfined()) {
                    long x = random(arena, n);
                    assertThat(loops.matrix().sum(x, n)).isEqualTo(sum(n, i -> at(x, i)), offset(1e-5 * n + 1e-5));
                    assertThat((double) loops.matrix().extreme(x, n, true)).isEqualTo(
                            IntStream.range(0, n).mapToDouble(i -> at(x, i)).max().orElseThrow(), offset(0.0));
                    assertThat((double) loops.matrix().extreme(x, n, false)).isEqualTo(
                            IntStream.range(0, n).mapToDouble(i -> at(x, i)).min().orElseThrow(), offset(0.0));
                    HostMemory.putFloat(x + 4L * (n / 2), Float.NaN);
                    assertThat(loops.matrix().extreme(x, n, true)).isNaN();
                    assertThat(loops.matrix().sum(x, n)).isNaN();
                }
            }
        }
    }
}
