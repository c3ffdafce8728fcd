package dev.starling.tensor.cpu.gemm;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Random products beside sums in f64, and the same bits by every way to the same product. */
class GemmTest {
    private static final int CASES = 600;
    /** What stands between the rows of a result, and must stay. */
    private static final float GAP = -77;
    /** Elements behind a matrix. */
    private static final int BEHIND = 600;

    @BeforeEach
    void needsMachineCode() {
        assumeTrue(Gemm.suits(1, Gemm.COLUMNS, 1, false, false), "the processor has no AVX2");
    }

    /** A product of random sizes, strides and contents. */
    private static final class Product {
        final long m;
        final long n;
        final long k;
        final long[] left;
        final long[] right;
        final long pitch;
        final boolean add;
        final MemorySegment a;
        final MemorySegment b;
        final MemorySegment before;
        final MemorySegment bias;

        Product(Arena arena, Random random, int most, int mostInner) {
            this(arena, random, 1 + random.nextInt(most), 1 + random.nextInt(most), 1 + random.nextInt(mostInner));
        }

        Product(Arena arena, Random random, long m, long n, long k) {
            this(arena, random, m, n, k, strides(random, m, k));
        }

        Product(Arena arena, Random random, long m, long n, long k, long[] left) {
            this(arena, random, m, n, k, left, strides(random, k, n));
        }

        Product(Arena arena, Random random, long m, long n, long k, long[] left, long[] right) {
            this.m = m;
            this.n = n;
            this.k = k;
            this.left = left;
            this.right = right;
            pitch = n + random.nextInt(4);
            add = random.nextBoolean();
            a = numbers(arena, random, m, k, left, Float.NaN);
            b = numbers(arena, random, k, n, right, Float.NaN);
            bias = random.nextBoolean() ? numbers(arena, random, 1, n, new long[] {n, 1}, 0) : MemorySegment.NULL;
            before = numbers(arena, random, m, n, new long[] {pitch, 1}, GAP);
        }

        /** Returns random strides, in one case of four so that rows or columns share sets of the cache. */
        private static long[] strides(Random random, long rows, long columns) {
            boolean rowMajor = random.nextBoolean();
            long length = rowMajor ? columns : rows;
            long stride = random.nextInt(4) == 0 ? crowded(random, length) : length + random.nextInt(4);
            return rowMajor ? new long[] {stride, 1} : new long[] {1, stride};
        }

        private static long crowded(Random random, long length) {
            long step = random.nextBoolean() ? 512 : 1024;
            return Math.ceilDiv(length, step) * step;
        }

        /** Returns a matrix with a value between its rows or columns, and behind the last one. */
        private static MemorySegment numbers(Arena arena, Random random, long rows, long columns, long[] strides,
                float gap) {
            long count = (rows - 1) * strides[0] + (columns - 1) * strides[1] + 1 + BEHIND;
            MemorySegment numbers = arena.allocate(4 * count, 4);
            for (long i = 0; i < count; i++) {
                numbers.setAtIndex(ValueLayout.JAVA_FLOAT, i, gap);
            }
            for (long i = 0; i < rows; i++) {
                for (long j = 0; j < columns; j++) {
                    numbers.setAtIndex(ValueLayout.JAVA_FLOAT, i * strides[0] + j * strides[1],
                            random.nextFloat() - 0.5f);
                }
            }
            return numbers;
        }

        double exact(long row, long column) {
            double sum = add ? before.getAtIndex(ValueLayout.JAVA_FLOAT, row * pitch + column) : 0;
            sum += bias.address() == 0 ? 0 : bias.getAtIndex(ValueLayout.JAVA_FLOAT, column);
            for (long i = 0; i < k; i++) {
                sum += (double) a.getAtIndex(ValueLayout.JAVA_FLOAT, row * left[0] + i * left[1])
                        * b.getAtIndex(ValueLayout.JAVA_FLOAT, i * right[0] + column * right[1]);
            }
            return sum;
        }

        /** Computes the result in parts of so many rows and columns. */
        float[] result(Arena arena, long rows, long columns, boolean packed) {
            MemorySegment c = arena.allocate(before.byteSize(), 4).copyFrom(before);
            try (Gemm gemm = Gemm.acquire()) {
                for (long row = 0; row < m; row += rows) {
                    for (long column = 0; column < n; column += columns) {
                        long height = Math.min(rows, m - row);
                        long width = Math.min(columns, n - column);
                        gemm.left(a.address() + 4 * row * left[0], left[0], left[1])
                                .right(b.address() + 4 * column * right[1], right[0], right[1])
                                .result(c.address() + 4 * (row * pitch + column), pitch)
                                .bias(bias.address() == 0 ? 0 : bias.address() + 4 * column);
                        if (packed && (right[1] != 1 || Gemm.packs(width, right[0], right[1]))) {
                            MemorySegment panels = arena.allocate(Gemm.packedBytes(width, k), 64);
                            gemm.pack(width, k, panels.address());
                            gemm.packedRight(panels.address());
                        }
                        gemm.multiply(height, width, k, add);
                    }
                }
            }
            return c.toArray(ValueLayout.JAVA_FLOAT);
        }

        @Override
        public String toString() {
            return m + "×" + k + " " + Arrays.toString(left) + " by " + k + "×" + n + " " + Arrays.toString(right)
                    + (add ? " added" : "") + (bias.address() == 0 ? "" : " with bias");
        }
    }

    @Test
    void multipliesRandomMatrices() {
        Random random = new Random(11);
        for (int i = 0; i < CASES; i++) {
            try (Arena arena = Arena.ofConfined()) {
                Product product = new Product(arena, random, i % 3 == 0 ? 130 : 36, i % 4 == 0 ? 900 : 40);
                float[] c = product.result(arena, product.m, product.n, false);
                for (int at = 0; at < c.length; at++) {
                    assertExact(product, c, at, 4e-5);
                }
            }
        }
    }

    private static void assertExact(Product product, float[] c, int at, double tolerance) {
        long row = at / product.pitch;
        long column = at % product.pitch;
        boolean inside = row < product.m && column < product.n;
        double expected = inside ? product.exact(row, column) : GAP;
        assertThat((double) c[at]).as("%s, at %d, %d", product, row, column).isCloseTo(expected, within(tolerance));
    }

    @Test
    void multipliesSeveralBlocksOfRowsAndGroupsOfPanels() {
        Random random = new Random(14);
        for (int i = 0; i < CASES / 20; i++) {
            try (Arena arena = Arena.ofConfined()) {
                long m = 1 + random.nextInt(500);
                long n = 1 + random.nextInt(1300);
                long k = 1 + random.nextInt(i % 2 == 0 ? 900 : 20);
                Product product = switch (i % 3) {
                    case 0 -> new Product(arena, random, m, n, k, new long[] {1024, 1});
                    case 1 -> new Product(arena, random, m, n, k, new long[] {1, 1024});
                    default -> new Product(arena, random, m, n, k);
                };
                float[] c = product.result(arena, product.m, product.n, false);
                for (int sample = 0; sample < CASES; sample++) {
                    assertExact(product, c, random.nextInt(c.length), 4e-5);
                }
                assertThat(product.result(arena, 100, 96, false)).as(product.toString()).isEqualTo(c);
            }
        }
    }

    /** The last part of such an inner size is a single column, too short to be copied as rows of A that are crowded. */
    @Test
    void multipliesALongInnerSizeWithAShortRest() {
        Random random = new Random(15);
        try (Arena arena = Arena.ofConfined()) {
            long k = 384 * 384 + 1;
            Product product = new Product(arena, random, 5, 150, k, new long[] {Math.ceilDiv(k, 1024L) * 1024, 1});
            float[] c = product.result(arena, product.m, product.n, false);
            for (int at = 0; at < c.length; at++) {
                assertExact(product, c, at, 0.01);
            }
        }
    }

    /** Columns of a crowded, transposed A are copied, unless the last block of rows fills no vector. */
    @Test
    void multipliesATransposedLeftOperandWithEveryLengthOfTheLastBlock() {
        Random random = new Random(16);
        for (int rest = 0; rest < 20; rest++) {
            try (Arena arena = Arena.ofConfined()) {
                Product product = new Product(arena, random, 192 + rest, 130, 40, new long[] {1, 1024});
                float[] c = product.result(arena, product.m, product.n, false);
                for (int at = 0; at < c.length; at++) {
                    assertExact(product, c, at, 4e-5);
                }
                assertThat(product.result(arena, 12, 130, false)).as(product.toString()).isEqualTo(c);
            }
        }
    }

    @Test
    void neitherPackingNorDivisionChangesBits() {
        Random random = new Random(12);
        for (int i = 0; i < CASES / 4; i++) {
            try (Arena arena = Arena.ofConfined()) {
                Product product = new Product(arena, random, 300, 900);
                float[] whole = product.result(arena, product.m, product.n, false);
                float[] parts = product.result(arena, 1 + random.nextLong(product.m), 1 + random.nextLong(product.n),
                        false);
                assertThat(product.result(arena, product.m, product.n, true)).as(product.toString()).isEqualTo(whole);
                assertThat(parts).as(product.toString()).isEqualTo(whole);
            }
        }
    }

    /** Rows that would displace each other from the cache are packed if they consist of whole panels. */
    @Test
    void packingRowsThatAreCrowdedChangesNoBits() {
        assumeTrue(Gemm.packs(Gemm.COLUMNS, 512, 1), "rows are packed with AVX2 only");
        Random random = new Random(17);
        for (long n = Gemm.COLUMNS; n <= 8 * Gemm.COLUMNS; n += Gemm.COLUMNS) {
            try (Arena arena = Arena.ofConfined()) {
                long k = 1 + random.nextInt(900);
                Product product = new Product(arena, random, 40, n, k, new long[] {k, 1}, new long[] {512, 1});
                float[] plain = product.result(arena, 40, n, false);
                assertThat(product.result(arena, 40, n, true)).as(product.toString()).isEqualTo(plain);
            }
        }
    }

    @Test
    void aNanOfAColumnStaysInIt() {
        Random random = new Random(13);
        for (int i = 0; i < CASES / 10; i++) {
            try (Arena arena = Arena.ofConfined()) {
                Product product = new Product(arena, random, 70, 40);
                float[] expected = product.result(arena, product.m, product.n, false);
                long column = random.nextLong(product.n);
                long at = random.nextLong(product.k) * product.right[0] + column * product.right[1];
                product.b.setAtIndex(ValueLayout.JAVA_FLOAT, at, Float.NaN);
                for (long row = 0; row < product.m; row++) {
                    expected[(int) (row * product.pitch + column)] = Float.NaN;
                }
                assertThat(product.result(arena, product.m, product.n, false)).as(product.toString())
                        .isEqualTo(expected);
            }
        }
    }
}
