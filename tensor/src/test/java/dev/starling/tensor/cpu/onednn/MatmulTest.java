package dev.starling.tensor.cpu.onednn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.host.Parallel;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class MatmulTest {

    @ParameterizedTest
    @CsvSource({"1,1,1", "1,7,3", "5,1,9", "3,4,1", "1,1,64", "1,33,17", "17,15,31", "16,16,16", "64,65,63",
        "128,10,256", "200,300,150", "513,129,257", "3,530,520", "40,1050,260"})
    void multipliesWithAnyTransposition(long m, long n, long k) {
        for (int layout = 0; layout < 4; layout++) {
            for (int threads = 1; threads <= 3; threads++) {
                check(m, n, k, (layout & 1) != 0, (layout & 2) != 0, 0, threads);
                check(m, n, k, (layout & 1) != 0, (layout & 2) != 0, 5, threads);
            }
        }
    }

    /** There are {@code gap} elements between the rows of every matrix. */
    private static void check(long m, long n, long k, boolean leftTransposed, boolean rightTransposed, long gap,
                              int threads) {
        try (Arena arena = Arena.ofConfined()) {
            long leftLength = (leftTransposed ? m : k) + gap;
            long rightLength = (rightTransposed ? k : n) + gap;
            Floats a = Floats.random(arena, leftLength * (leftTransposed ? k : m), 1);
            Floats b = Floats.random(arena, rightLength * (rightTransposed ? n : k), 2);
            Floats bias = Floats.random(arena, n, 3);
            Floats c = Floats.filled(arena, m * (n + gap), 7);
            long ar = leftTransposed ? 1 : leftLength;
            long ac = leftTransposed ? leftLength : 1;
            long br = rightTransposed ? 1 : rightLength;
            long bc = rightTransposed ? rightLength : 1;
            Matmul matmul = new Matmul(ElementType.F32, ElementType.F32, m, n, k)
                .left(a.address(), ar, ac).right(b.address(), br, bc).result(c.address(), n + gap)
                .bias(bias.address());
            Parallel.withThreads(threads, () -> {
                matmul.run();
                return null;
            });
            for (long i = 0; i < m; i++) {
                for (long j = 0; j < n + gap; j++) {
                    double expected = j < n ? bias.get(j) : 7;
                    for (long x = 0; x < k && j < n; x++) {
                        expected += (double) a.get(i * ar + x * ac) * b.get(x * br + j * bc);
                    }
                    double actual = c.get(i * (n + gap) + j);
                    double tolerance = 1e-5 * Math.sqrt(k) + 1e-6;
                    if (!(Math.abs(actual - expected) <= tolerance)) {
                        assertThat(actual).as("%d,%d of %dx%dx%d", i, j, m, n, k)
                            .isCloseTo(expected, within(tolerance));
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"1,2,3,2,2,2", "4,1,5,6,7,8", "3,4,20,30,40,50", "2,3,1,9,1,1", "2,2,2,2,2,1", "8,2,64,64,64,64",
        "2,2,2,530,520,9"})
    void repeatsOperandsOverBatchDimensions(long b0, long b1, long m, long n, long k, long seed) {
        for (int repeat = 0; repeat < 16; repeat++) {
            try (Arena arena = Arena.ofConfined()) {
                long[] left = batchStrides(repeat, b0, b1, m * k);
                long[] right = batchStrides(repeat >> 2, b0, b1, k * n);
                Floats a = Floats.random(arena, b0 * b1 * m * k, seed);
                Floats b = Floats.random(arena, b0 * b1 * k * n, seed + 1);
                Floats c = Floats.filled(arena, b0 * b1 * m * n, Float.NaN);
                new Matmul(ElementType.F32, ElementType.F32, m, n, k)
                    .left(a.address(), k, 1).right(b.address(), n, 1).result(c.address(), n)
                    .batch(b0, left[0], right[0], b1 * m * n).batch(b1, left[1], right[1], m * n).run();
                for (long i = 0; i < b0; i++) {
                    for (long j = 0; j < b1; j++) {
                        long at = i * left[0] + j * left[1];
                        long bt = i * right[0] + j * right[1];
                        for (long r = 0; r < m; r++) {
                            for (long s = 0; s < n; s++) {
                                double expected = 0;
                                for (long x = 0; x < k; x++) {
                                    expected += (double) a.get(at + r * k + x) * b.get(bt + x * n + s);
                                }
                                assertThat((double) c.get(((i * b1 + j) * m + r) * n + s))
                                    .as("repeat %d", repeat).isCloseTo(expected, within(1e-5 * Math.sqrt(k)));
                            }
                        }
                    }
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"300,70,40,1", "40,300,70,1", "7,33,65,12", "100,64,900,3", "70,1000,280,1", "5,530,520,6"})
    void threadsDoNotChangeBits(long m, long n, long k, long matrices) {
        for (int layout = 0; layout < 4; layout++) {
            try (Arena arena = Arena.ofConfined()) {
                Floats a = Floats.random(arena, matrices * m * k, 1);
                Floats b = Floats.random(arena, matrices * k * n, 2);
                boolean leftTurned = (layout & 1) != 0;
                boolean rightTurned = (layout & 2) != 0;
                Floats[] results = new Floats[5];
                for (int threads = 1; threads < results.length; threads++) {
                    Floats c = Floats.filled(arena, matrices * m * n, Float.NaN);
                    results[threads] = c;
                    Matmul matmul = new Matmul(ElementType.F32, ElementType.F32, m, n, k)
                        .left(a.address(), leftTurned ? 1 : k, leftTurned ? m : 1)
                        .right(b.address(), rightTurned ? 1 : n, rightTurned ? k : 1).result(c.address(), n)
                        .batch(matrices, m * k, k * n, m * n);
                    Parallel.withThreads(threads, () -> {
                        matmul.run();
                        return null;
                    });
                    assertThat(c.memory().mismatch(results[1].memory())).as("%d threads, layout %d", threads, layout)
                        .isEqualTo(-1);
                }
            }
        }
    }

    private static long[] batchStrides(int repeat, long b0, long b1, long matrix) {
        long inner = (repeat & 1) != 0 ? 0 : matrix;
        long outer = (repeat & 2) != 0 ? 0 : b1 * matrix;
        return new long[] {outer, inner};
    }

    @Test
    void accumulates() {
        try (Arena arena = Arena.ofConfined()) {
            long m = 9;
            long n = 21;
            long k = 13;
            Floats a = Floats.random(arena, m * k, 1);
            Floats b = Floats.random(arena, k * n, 2);
            Floats before = Floats.random(arena, m * n, 3);
            Floats c = Floats.random(arena, m * n, 3);
            new Matmul(ElementType.F32, ElementType.F32, m, n, k).left(a.address(), k, 1).right(b.address(), n, 1)
                .result(c.address(), n).accumulate(true).run();
            for (long i = 0; i < m * n; i++) {
                double sum = before.get(i);
                for (long x = 0; x < k; x++) {
                    sum += (double) a.get(i / n * k + x) * b.get(x * n + i % n);
                }
                assertThat((double) c.get(i)).isCloseTo(sum, within(2e-5));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void multipliesBf16WhereTheProcessorCan(boolean toBf16) {
        if (!OneDnn.supports(ElementType.BF16)) {
            return;
        }
        try (Arena arena = Arena.ofConfined()) {
            long m = 19;
            long n = 35;
            long k = 130;
            Floats a = Floats.random(arena, m * k, 1);
            Floats b = Floats.random(arena, k * n, 2);
            MemorySegment a16 = a.toBf16(arena);
            MemorySegment b16 = b.toBf16(arena);
            MemorySegment c = arena.allocate(m * n * 4, 64);
            new Matmul(ElementType.BF16, toBf16 ? ElementType.BF16 : ElementType.F32, m, n, k)
                .left(a16.address(), k, 1).right(b16.address(), n, 1).result(c.address(), n).run();
            for (long i = 0; i < m * n; i++) {
                double expected = 0;
                for (long x = 0; x < k; x++) {
                    expected += (double) a.get(i / n * k + x) * b.get(x * n + i % n);
                }
                double actual = toBf16 ? Floats.bf16At(c, i) : new Floats(c).get(i);
                assertThat(actual).isCloseTo(expected,
                    within(toBf16 ? Math.abs(expected) / 200 + 1e-3 : 1e-4));
            }
        }
    }

    @Test
    void givesTheSameBitsToConcurrentCallers() throws Exception {
        try (Arena arena = Arena.ofShared(); ExecutorService threads = Executors.newFixedThreadPool(4)) {
            List<Callable<Long>> calls = new ArrayList<>();
            for (int t = 0; t < 16; t++) {
                calls.add(() -> {
                    long size = 150;
                    Floats a = Floats.random(arena, size * size, 5);
                    Floats c = Floats.filled(arena, size * size, 0);
                    Matmul square = new Matmul(ElementType.F32, ElementType.F32, size, size, size)
                        .left(a.address(), size, 1).right(a.address(), size, 1).result(c.address(), size);
                    for (int i = 0; i < 50; i++) {
                        square.run();
                    }
                    long hash = 0;
                    for (long i = 0; i < size * size; i++) {
                        hash = 31 * hash + Float.floatToRawIntBits(c.get(i));
                    }
                    return hash;
                });
            }
            List<Long> hashes = new ArrayList<>();
            for (Future<Long> result : threads.invokeAll(calls)) {
                hashes.add(result.get());
            }
            assertThat(hashes).hasSize(16).containsOnly(hashes.getFirst());
        }
    }

    @Test
    void refusesWhatNeedsACopyOrIsEmpty() {
        assertThat(Matmul.accepts(4, 4, 8, 2)).isFalse();
        assertThat(Matmul.accepts(4, 4, 0, 1)).isFalse();
        assertThat(Matmul.accepts(4, 1, 8, 2)).isTrue();
        assertThatThrownBy(() -> new Matmul(ElementType.F32, ElementType.F32, 4, 4, 4).left(0, 8, 2))
            .hasMessageContaining("left [4, 4] has strides [8, 2]");
        assertThatThrownBy(() -> new Matmul(ElementType.F32, ElementType.F32, 4, 0, 4))
            .hasMessageContaining("n=0");
    }
}
