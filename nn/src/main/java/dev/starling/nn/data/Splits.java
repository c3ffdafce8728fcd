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
        double sum = Arrays.stream(shares).sum();
        if (shares.length == 0 || !(sum <= 1 + ROUNDING) || Arrays.stream(shares).anyMatch(s -> !(s >= 0))) {
            throw TensorException.argument("split", "shares must be 0 or more with a sum of at most 1, got "
                    + Arrays.toString(shares), "use for example 0.8 and 0.2");
        }
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
}
