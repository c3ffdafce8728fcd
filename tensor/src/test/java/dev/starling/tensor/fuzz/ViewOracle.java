package dev.starling.tensor.fuzz;

import dev.starling.tensor.op.View;
import java.util.Arrays;

/** Checks that a view shows the elements of its definition, found by index and not by stride. */
final class ViewOracle {
    private ViewOracle() {
    }

    static String difference(View op, Snapshot in, Snapshot... parts) {
        for (int part = 0; part < parts.length; part++) {
            String difference = difference(op, part, in, parts[part]);
            if (difference != null) {
                return difference;
            }
        }
        return null;
    }

    private static String difference(View op, int part, Snapshot in, Snapshot out) {
        int width = in.dtype().bytes();
        long[] from = in.shape().dims();
        long[] to = out.shape().dims();
        long[] at = new long[to.length];
        for (int i = 0; i < out.count(); i++) {
            long rest = i;
            for (int d = to.length - 1; d >= 0; d--) {
                at[d] = rest % to[d];
                rest /= to[d];
            }
            long j = op instanceof View.Reshape ? i : place(op, part, from, at);
            if (!Arrays.equals(in.bytes(), (int) j * width, (int) (j + 1) * width, out.bytes(), i * width,
                    (i + 1) * width)) {
                return op + " shows at " + Arrays.toString(at) + " another element than " + j;
            }
        }
        return null;
    }

    private static long place(View op, int part, long[] from, long... at) {
        long[] source = new long[from.length];
        if (op instanceof View.Unstack o) {
            source[o.axis()] = part;
        }
        for (int d = 0; d < at.length; d++) {
            switch (op) {
                case View.Permute o -> source[o.order()[d]] = at[d];
                case View.Slice o -> source[d] = o.starts()[d] + at[d] * o.steps()[d];
                case View.Expand o -> {
                    int s = d - (at.length - from.length);
                    if (s >= 0) {
                        source[s] = from[s] == 1 ? 0 : at[d];
                    }
                }
                case View.Unstack o -> source[d < o.axis() ? d : d + 1] = at[d];
                case View.Reshape o -> throw new AssertionError("reshape keeps the order");
            }
        }
        long j = 0;
        for (int d = 0; d < from.length; d++) {
            j = j * from[d] + source[d];
        }
        return j;
    }
}
