package dev.starling.nn.data;

import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Divides a number of rows into parts. */
final class Splits {
    private static final double ROUNDING = 1e-9;

    private Splits() {
    }

    /** Returns the first row of each part and the row behind its last. */
    static List<int[]> bounds(int rows, double... shares) {
        rest(shares);
        List<int[]> parts = new ArrayList<>();
        double reached = 0;
        int from = 0;
        for (double share : shares) {
            reached += share;
            int to = (int) Math.min(rows, Math.round(rows * reached));
            parts.add(new int[] {from, to});
            from = to;
        }
        return parts;
    }

    /** Returns the share of rows that are in no part. */
    static double rest(double... shares) {
        double sum = Arrays.stream(shares).sum();
        if (shares.length == 0 || !(sum <= 1 + ROUNDING) || Arrays.stream(shares).anyMatch(s -> !(s >= 0))) {
            throw TensorException.argument("split", "shares must be 0 or more with a sum of at most 1, got "
                    + Arrays.toString(shares), "use for example 0.8 and 0.2");
        }
        return Math.max(0, 1 - sum);
    }

    /**
     * Returns how many rows of one of several groups are in each part: its share rounded up or down, so that the parts
     * of all groups have their shares, too. Rows whose share is a fraction are in the parts that lack most.
     *
     * @param lacking by part, how many rows it lacks after the groups before this one, and is updated
     * @param shares of all parts; their sum is 1
     */
    static int[] sizes(int rows, double[] lacking, double... shares) {
        int[] sizes = new int[shares.length];
        double[] fractions = new double[shares.length];
        int left = rows;
        for (int i = 0; i < shares.length; i++) {
            sizes[i] = (int) Math.min(left, Math.floor(rows * shares[i] + ROUNDING));
            fractions[i] = rows * shares[i] - sizes[i];
            lacking[i] += fractions[i];
            left -= sizes[i];
        }
        for (; left > 0; left--) {
            int most = 0;
            for (int i = 1; i < shares.length; i++) {
                most = fractions[i] > ROUNDING && (fractions[most] <= ROUNDING || lacking[i] > lacking[most] + ROUNDING)
                        ? i : most;
            }
            sizes[most]++;
            lacking[most]--;
            fractions[most] = 0;
        }
        return sizes;
    }
}
