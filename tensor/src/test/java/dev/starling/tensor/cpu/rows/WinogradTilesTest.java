package dev.starling.tensor.cpu.rows;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.cpu.rows.WinogradTiles.Squares;
import dev.starling.tensor.host.HostMemory;
import java.lang.foreign.Arena;
import java.util.List;
import java.util.SplittableRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Every implementation of the transforms, on tiles side by side, against direct sums in double precision. */
class WinogradTilesTest {
    private static final int CHANNELS = 32;
    private static final int TILES = 3;
    private static final int KERNEL = 3;
    private static final double TOLERANCE = 2e-5;

    private final SplittableRandom random = new SplittableRandom(1);

    static List<WinogradTiles> implementations() {
        return RowLoops.all().stream().flatMap(loops -> loops.winograd().stream()).toList();
    }

    private long random(Arena arena, int pixels) {
        long at = arena.allocate(4L * pixels * CHANNELS, 64).address();
        for (int i = 0; i < pixels * CHANNELS; i++) {
            HostMemory.putFloat(at + 4L * i, (float) random.nextDouble(-1, 1));
        }
        return at;
    }

    private static double get(long at, int pixel, int c) {
        return HostMemory.getFloat(at + 4L * ((long) pixel * CHANNELS + c));
    }

    private static void set(long at, int pixel, int c, float value) {
        HostMemory.putFloat(at + 4L * ((long) pixel * CHANNELS + c), value);
    }

    /** Squares of a side, column by column, in rows of {@code width} pixels, {@code distance} pixels apart. */
    private static Squares squares(long at, int width, int side, int distance) {
        Squares squares = new Squares(side);
        for (int k = 0; k < side * side; k++) {
            squares.at[k] = at + 4L * CHANNELS * (k % side * width + k / side);
            squares.step[k] = 4L * CHANNELS * distance;
        }
        return squares;
    }

    @ParameterizedTest
    @MethodSource("implementations")
    void formDirectSums(WinogradTiles tiles) {
        int m = tiles.side();
        int width = TILES * m + 2;
        long plane = 4L * CHANNELS * TILES;
        try (Arena arena = Arena.ofConfined()) {
            long x = random(arena, (m + 2) * width);
            long rows = random(arena, 2 * KERNEL * KERNEL);
            long g = rows + 4L * CHANNELS * KERNEL * KERNEL;
            long bias = random(arena, 1);
            long u = random(arena, 2 * tiles.planes());
            long v = random(arena, tiles.planes() * TILES);
            tiles.kernels(rows, 4L * CHANNELS, u, 8L * CHANNELS, 2, CHANNELS);
            tiles.patches(squares(x, width, m + 2, m), TILES, CHANNELS, v, plane);
            for (int k = 0; k < tiles.planes() * TILES; k++) {
                for (int c = 0; c < CHANNELS; c++) {
                    set(v, k, c, (float) (get(v, k, c) * get(u, 2 * (k / TILES) + 1, c)));
                }
            }
            for (boolean relu : new boolean[] {false, true}) {
                long y = random(arena, m * TILES * m);
                tiles.pixels(v, plane, TILES, CHANNELS, bias, relu, squares(y, TILES * m, m, m));
                for (int p = 0; p < m * TILES * m; p++) {
                    for (int c = 0; c < CHANNELS; c++) {
                        double sum = get(bias, 0, c);
                        for (int k = 0; k < KERNEL * KERNEL; k++) {
                            sum += get(g, k, c) * get(x, at(p, k, TILES * m, width), c);
                        }
                        assertThat(Math.abs(get(y, p, c) - (relu ? Math.max(0, sum) : sum))).isLessThan(TOLERANCE);
                    }
                }
            }
        }
    }

    /** The pixel of the input that tap {@code k} of a pixel of the output reads. */
    private static int at(int pixel, int k, int width, int inputWidth) {
        return (pixel / width + k / KERNEL) * inputWidth + pixel % width + k % KERNEL;
    }

    @ParameterizedTest
    @MethodSource("implementations")
    void formGradientsOfKernels(WinogradTiles tiles) {
        int m = tiles.side();
        int width = TILES * m + 2;
        long plane = 4L * CHANNELS * TILES;
        try (Arena arena = Arena.ofConfined()) {
            long x = random(arena, (m + 2) * width);
            long dy = random(arena, m * TILES * m);
            long v = random(arena, tiles.planes() * TILES);
            long z = random(arena, tiles.planes() * TILES);
            long u = random(arena, tiles.planes());
            long dg = random(arena, KERNEL * KERNEL);
            tiles.patches(squares(x, width, m + 2, m), TILES, CHANNELS, v, plane);
            tiles.gradients(squares(dy, TILES * m, m, m), TILES, CHANNELS, z, plane);
            for (int k = 0; k < tiles.planes(); k++) {
                for (int c = 0; c < CHANNELS; c++) {
                    double sum = 0;
                    for (int t = 0; t < TILES; t++) {
                        sum += get(v, k * TILES + t, c) * get(z, k * TILES + t, c);
                    }
                    set(u, k, c, (float) sum);
                }
            }
            tiles.kernelGradients(u, 4L * CHANNELS, dg, 4L * CHANNELS, CHANNELS);
            for (int k = 0; k < KERNEL * KERNEL; k++) {
                for (int c = 0; c < CHANNELS; c++) {
                    double sum = 0;
                    for (int p = 0; p < m * TILES * m; p++) {
                        sum += get(dy, p, c) * get(x, at(p, k, TILES * m, width), c);
                    }
                    assertThat(Math.abs(get(dg, k, c) - sum)).isLessThan(TOLERANCE * m);
                }
            }
        }
    }
}
