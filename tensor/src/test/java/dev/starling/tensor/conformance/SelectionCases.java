package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Selection;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Selection}: both index types, repeated indices, and indices that count from the end. */
final class SelectionCases {
    private SelectionCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        for (DType type : ConformanceCases.ALL) {
            for (DType index : ConformanceCases.INDICES) {
                takes(cases, type, index);
                gathers(cases, type, index);
            }
            scatters(cases, type);
            nonzeros(cases, type);
        }
        return cases.stream();
    }

    private static void takes(List<Case> cases, DType type, DType index) {
        long[][] indexShapes = {{0}, {}, {1}, {17}, {2, 3}};
        for (long[] at : indexShapes) {
            Operand indices = Operand.indices(index, 5, at);
            Operand table = Operand.of(type, Values.NORMAL, 5, 17);
            cases.add(Case.of(new Selection.Take(0), Tolerance.BITS, table, indices));
            cases.add(Case.of(new Selection.TakeGradient(0, 5), Tolerance.sum(17),
                    Operand.of(type, Values.NORMAL, concat(at, 17)), indices));
        }
        Operand x = Operand.of(type, Values.NORMAL, 3, 6, 4);
        inLayouts(Case.of(new Selection.Take(1), Tolerance.BITS, x, Operand.indices(index, 6, 9)), Layout.TRANSPOSED,
                Layout.STEPPED, Layout.REVERSED).forEach(cases::add);
        inLayouts(Case.of(new Selection.TakeGradient(1, 6), Tolerance.sum(9),
                Operand.of(type, Values.NORMAL, 3, 9, 4), Operand.indices(index, 6, 9)), Layout.TRANSPOSED,
                Layout.STEPPED).forEach(cases::add);
        cases.add(Case.of(new Selection.Take(2), Tolerance.BITS, x, Operand.indices(index, 4, 33)));
        cases.add(Case.of(new Selection.Take(0), Tolerance.BITS, Operand.of(type, Values.NORMAL, 300, 65),
                Operand.indices(index, 300, 700)).valuesOnly());
        cases.add(Case.of(new Selection.TakeGradient(0, 30), Tolerance.sum(700),
                Operand.of(type, Values.NORMAL, 700, 65), Operand.indices(index, 30, 700)).valuesOnly());
    }

    private static void gathers(List<Case> cases, DType type, DType index) {
        Operand x = Operand.of(type, Values.NORMAL, 5, 17);
        inLayouts(Case.of(new Selection.Gather(1), Tolerance.BITS, x, Operand.indices(index, 17, 5, 4)),
                Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
        cases.add(Case.of(new Selection.Gather(0), Tolerance.BITS, x, Operand.indices(index, 5, 33, 16)));
        cases.add(Case.of(new Selection.Gather(1), Tolerance.BITS, x, Operand.indices(index, 17, 3, 0)));
        cases.add(Case.of(new Selection.Gather(0), Tolerance.BITS, Operand.of(type, Values.NORMAL, 7),
                Operand.indices(index, 7, 15)));
    }

    private static void scatters(List<Case> cases, DType type) {
        Operand base = Operand.of(type, Values.NORMAL, 5, 17);
        Operand index = Operand.indices(DType.I64, 17, 5, 9);
        Operand source = Operand.of(type, Values.NORMAL, 5, 9);
        inLayouts(Case.of(new Selection.ScatterAdd(1), Tolerance.sum(9), base, index, source), Layout.TRANSPOSED,
                Layout.STEPPED).forEach(cases::add);
        cases.add(Case.of(new Selection.ScatterAdd(0), Tolerance.sum(33), base, Operand.indices(DType.I32, 5, 33, 16),
                Operand.of(type, Values.NORMAL, 33, 16)));
        cases.add(Case.of(new Selection.ScatterAdd(0), Tolerance.BITS, base, Operand.indices(DType.I64, 5, 0, 17),
                Operand.of(type, Values.NORMAL, 0, 17)));
        // The last of equal indices wins; only without equal indices is there a gradient.
        cases.add(Case.of(new Selection.Scatter(1), Tolerance.BITS, base, index, source).valuesOnly());
        Operand distinct = Operand.literal(DType.I64, new double[] {3, -1, 0, 7, 2, 1, -17, 16, 5}, 3, 3);
        inLayouts(Case.of(new Selection.Scatter(1), Tolerance.BITS, base, distinct,
                Operand.of(type, Values.NORMAL, 3, 3)), Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
        cases.add(Case.of(new Selection.Scatter(0), Tolerance.BITS, base, Operand.literal(DType.I32,
                new double[] {4, 0, -4}, 3, 1), Operand.of(type, Values.NORMAL, 3, 1)));
    }

    private static void nonzeros(List<Case> cases, DType type) {
        double[] pattern = new double[85];
        Arrays.setAll(pattern, i -> i * i % 7 == 2 || i > 70 ? 1 : 0);
        long count = Arrays.stream(pattern).filter(v -> v != 0).count();
        Operand x = Operand.literal(type, pattern, 5, 17);
        inLayouts(Case.of(new Selection.Nonzero(count), Tolerance.BITS, x), Layout.TRANSPOSED, Layout.STEPPED)
                .forEach(cases::add);
        cases.add(Case.of(new Selection.Nonzero(0), Tolerance.BITS, Operand.literal(type, new double[17], 17)));
        cases.add(Case.of(new Selection.Nonzero(1), Tolerance.BITS, Operand.literal(type, new double[] {1})));
        cases.add(Case.of(new Selection.Nonzero(0), Tolerance.BITS, Operand.literal(type, new double[0], 0, 3)));
    }

    private static long[] concat(long[] a, long last) {
        long[] result = Arrays.copyOf(a, a.length + 1);
        result[a.length] = last;
        return result;
    }
}
