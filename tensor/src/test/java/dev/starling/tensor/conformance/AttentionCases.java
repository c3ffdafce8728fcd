package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Attention;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Attention}. */
final class AttentionCases {
    private static final double SCALE = 0.4;
    private static final Tolerance TOLERANCE = Tolerance.sum(64).cancelling(8);

    private AttentionCases() {
    }

    static Stream<Case> all() {
        return ConformanceCases.FLOATING.stream().flatMap(AttentionCases::of);
    }

    /** Sizes are those of leading dimensions, then queries, keys, width and depth. */
    private static Stream<Case> of(DType type) {
        List<Case> cases = new ArrayList<>();
        for (boolean causal : new boolean[] {false, true}) {
            for (long[] s : new long[][] {{3, 5, 4, 2}, {2, 7, 7, 5, 5}, {2, 3, 17, 5, 8, 3}, {1, 1, 1, 1},
                {2, 3, 33, 4, 16}, {2, 3, 9, 12, 8, 16},
                {0, 2, 3, 4, 5}, {2, 0, 3, 4, 5}, {3, 0, 4, 5}, {2, 3, 0, 4}, {2, 3, 4, 0}}) {
                plain(cases, type, causal, s);
            }
            masked(cases, type, causal);
            // More than one tile of queries and of keys, and ragged ones at the end.
            cases.add(Case.of(new Attention.ScaledDotProduct(SCALE, causal), TOLERANCE, normal(type, 2, 70, 9),
                    normal(type, 2, 135, 9), normal(type, 2, 135, 17)));
            cases.add(Case.of(new Attention.ScaledDotProduct(0.1, causal), TOLERANCE, normal(type, 150, 64),
                    normal(type, 150, 64), normal(type, 150, 64)));
            cases.add(Case.of(new Attention.ScaledDotProduct(-0.1, causal), TOLERANCE, normal(type, 1, 3, 130),
                    normal(type, 2, 4, 130), normal(type, 1, 4, 70)));
        }
        return cases.stream();
    }

    private static void plain(List<Case> cases, DType type, boolean causal, long... s) {
        int n = s.length - 4;
        long[] q = sizes(s, n, s[n], s[n + 2]);
        long[] k = sizes(s, n, s[n + 1], s[n + 2]);
        long[] v = sizes(s, n, s[n + 1], s[n + 3]);
        long[] y = sizes(s, n, s[n], s[n + 3]);
        Attention op = new Attention.ScaledDotProduct(SCALE, causal);
        inLayouts(Case.of(op, TOLERANCE, normal(type, q), normal(type, k), normal(type, v)), Layout.SWAPPED,
                Layout.STEPPED, Layout.REVERSED, Layout.TRANSPOSED, Layout.INNER).forEach(cases::add);
        Attention gradient = new Attention.ScaledDotProductGradient(SCALE, causal);
        inLayouts(Case.of(gradient, TOLERANCE.cancelling(64), normal(type, y), normal(type, q), normal(type, k),
                normal(type, v), normal(type, y), logs(type, sizes(s, n, s[n]))), Layout.SWAPPED, Layout.STEPPED,
                Layout.TRANSPOSED).forEach(cases::add);
    }

    /** Masks of all kinds; one hides all keys from a query. Leading dimensions broadcast. */
    private static void masked(List<Case> cases, DType type, boolean causal) {
        Attention op = new Attention.ScaledDotProduct(SCALE, causal);
        Attention gradient = new Attention.ScaledDotProductGradient(SCALE, causal);
        Operand q = normal(type, 2, 3, 4);
        Operand k = normal(type, 3, 1, 5, 4);
        Operand v = normal(type, 5, 2);
        Operand blind = Operand.literal(DType.BOOL, new double[] {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1}, 3, 5);
        double hidden = Double.NEGATIVE_INFINITY;
        Operand infinite = Operand.literal(type, new double[] {0, hidden, 1, hidden, 0.5}, 1, 5);
        for (Operand mask : List.of(blind, Operand.of(DType.BOOL, Values.NORMAL, 3, 1, 1, 5), infinite,
                Operand.literal(DType.BOOL, new double[] {1}), normal(type, 3, 5), normal(type, 3, 2, 3, 5),
                normal(type, 2, 3, 1), blind.with(Layout.SWAPPED), normal(type, 2, 3, 5).with(Layout.STEPPED))) {
            cases.add(Case.of(op, TOLERANCE.cancelling(8), q, k, v, mask));
            cases.add(Case.of(gradient, TOLERANCE.cancelling(64), normal(type, 3, 2, 3, 2), q, k, v,
                    normal(type, 3, 2, 3, 2), logs(type, 3, 2, 3), mask));
        }
        cases.add(Case.of(op, TOLERANCE, q, k, v, Operand.literal(type, new double[] {hidden}, 1)).valuesOnly());
        Operand row = Operand.literal(type, new double[] {0, 1, hidden, 0, 1, hidden, hidden, hidden, hidden, hidden, 0,
            0, 0, hidden, 1}, 3, 5);
        cases.add(Case.of(op, TOLERANCE.cancelling(8), q, k, v, row).valuesOnly());
    }

    private static long[] sizes(long[] all, int lead, long... last) {
        long[] sizes = Arrays.copyOf(all, lead + last.length);
        System.arraycopy(last, 0, sizes, lead, last.length);
        return sizes;
    }

    private static Operand normal(DType type, long... shape) {
        return Operand.of(type, Values.NORMAL, shape);
    }

    /** Returns an operand like the second result of attention; weights stay about 1. */
    private static Operand logs(DType type, long... shape) {
        return Operand.of(type == DType.F64 ? DType.F64 : DType.F32, Values.ABOVE_ONE, shape);
    }
}
