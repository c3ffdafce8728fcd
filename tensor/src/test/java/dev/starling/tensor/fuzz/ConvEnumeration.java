package dev.starling.tensor.fuzz;

import dev.starling.tensor.DType;
import dev.starling.tensor.fuzz.ConvCase.Axis;
import dev.starling.tensor.fuzz.ConvCase.Layout;
import dev.starling.tensor.fuzz.ConvCase.Pass;
import java.util.ArrayList;
import java.util.List;

/**
 * All small geometries: sizes, kernels, strides, paddings and dilations of similar size, in one, two and three
 * dimensions, with one channel, several, and whole vectors of them, grouped and depthwise. Batch, type, layout, bias,
 * epilogue and threads follow from the geometry's number and a seed. Consecutive numbers are far apart in the
 * enumeration, so that any range is a sample of the whole.
 */
final class ConvEnumeration {
    /** Groups, and input and output channels per group. */
    private static final int[][] CHANNELS = {{1, 1, 1}, {2, 3, 2}, {1, 16, 16}, {16, 1, 1}, {1, 3, 8}, {1, 17, 33},
        {4, 1, 2}, {1, 1, 16}, {1, 8, 1}, {2, 16, 16}, {1, 4, 4}};
    private static final int[][] LINE = {{1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 4, 5}, {1, 2, 3, 4}, {0, 1, 2, 3, 4, 5},
        {1, 2, 3, 4}};
    private static final int[][] PLANE = {{1, 2, 3, 5}, {1, 2, 3}, {1, 2, 3}, {0, 1, 2}, {1, 2}};
    private static final int[][] DEPTH = {{1, 2, 3}, {1, 2, 3, 4}, {1, 2}, {0, 1, 2, 3}, {1, 2}};
    private static final int[][] HEIGHT = {{1, 2, 4}, {1, 3}, {1, 2}, {0, 1}, {1}};
    private static final int[][] WIDTH = {{1, 3}, {1, 2}, {1, 2}, {0, 1}, {1}};
    private static final int[][][][] RANKS = {{LINE}, {PLANE, PLANE}, {DEPTH, HEIGHT, WIDTH}};
    private static final int[] CHANNEL_CHOICES = {CHANNELS.length, CHANNELS.length, 4};
    private static final long FAR = 1_000_000_007L;

    private ConvEnumeration() {
    }

    /** Returns the number of geometries; some are not legal. */
    static long size() {
        long size = 0;
        for (int rank = 0; rank < RANKS.length; rank++) {
            size += count(rank);
        }
        return size;
    }

    private static long count(int rank) {
        long count = CHANNEL_CHOICES[rank];
        for (int[][] axis : RANKS[rank]) {
            for (int[] choices : axis) {
                count *= choices.length;
            }
        }
        return count;
    }

    /** Returns the passes of geometry {@code number}; none if its kernel does not fit into the padded image. */
    static List<ConvCase> cases(long number, long seed) {
        long rest = number % size() * FAR % size();
        int rank = 0;
        while (rest >= count(rank)) {
            rest -= count(rank++);
        }
        int[] channels = CHANNELS[(int) (rest % CHANNEL_CHOICES[rank])];
        rest /= CHANNEL_CHOICES[rank];
        List<Axis> axes = new ArrayList<>();
        for (int[][] axis : RANKS[rank]) {
            int[] chosen = new int[axis.length];
            for (int i = 0; i < axis.length; i++) {
                chosen[i] = axis[i][(int) (rest % axis[i].length)];
                rest /= axis[i].length;
            }
            axes.add(new Axis(chosen[0], chosen[1], chosen[2], chosen[3], chosen[4]));
        }
        long mixed = (number + seed * 0x632BE59BD9B4E019L) * 0x9E3779B97F4A7C15L;
        int drawn = (int) (mixed >>> 34);
        List<ConvCase> cases = new ArrayList<>();
        for (Pass pass : List.of(Pass.FORWARD, drawn % 3 == 0 ? Pass.TRANSPOSED : Pass.INPUT_GRADIENT,
                Pass.WEIGHT_GRADIENT)) {
            int own = (int) (mixed >>> 20 + 4 * pass.ordinal()) & 0xfff;
            cases.add(new ConvCase(pass, type(drawn / 3 % 16), 1 + drawn / 48 % 3, channels[0], channels[1],
                    channels[2], axes, Layout.values()[own % 5], (own & 64) != 0, (own & 128) != 0,
                    1 + (own >> 8 & 1)));
        }
        return cases.getFirst().isLegal() ? cases : List.of();
    }

    private static DType type(int drawn) {
        return drawn < 11 ? DType.F32 : drawn < 14 ? DType.BF16 : drawn < 15 ? DType.F16 : DType.F64;
    }
}
