package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inAllTypes;
import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import java.util.stream.Stream;

/** Cases of {@link Contraction}: sizes, batches that broadcast, transposed operands. */
final class ContractionCases {
    private static final Layout[] LAYOUTS = {Layout.SWAPPED, Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED,
        Layout.INNER, Layout.REPEATED};

    private ContractionCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        long[][] sizes = {{1, 1, 1}, {15, 16, 17}, {33, 31, 1}, {1, 33, 64}, {3, 0, 4}, {0, 3, 4}, {3, 4, 0},
            {7, 129, 5}, {65, 3, 66}};
        for (long[] s : sizes) {
            cases.add(matMul(new long[] {s[0], s[1]}, new long[] {s[1], s[2]}));
        }
        cases.add(matMul(new long[] {129, 130}, new long[] {130, 67}).valuesOnly());
        inLayouts(matMul(new long[] {5, 17}, new long[] {17, 6}), LAYOUTS).forEach(cases::add);
        inLayouts(matMul(new long[] {2, 3, 4, 5}, new long[] {2, 3, 5, 7}), LAYOUTS).forEach(cases::add);
        for (long[][] s : new long[][][] {{{3, 4, 5}, {5, 2}}, {{4, 5}, {3, 5, 2}}, {{3, 1, 4, 5}, {2, 5, 6}},
            {{1, 4, 5}, {6, 5, 2}}, {{0, 4, 5}, {5, 2}}}) {
            inLayouts(matMul(s[0], s[1]), Layout.SWAPPED).forEach(cases::add);
        }
        cases.add(Case.of(new Contraction.MatMul(), Tolerance.sum(17),
                Operand.of(DType.F32, Values.NORMAL, 5, 17).with(Layout.SWAPPED),
                Operand.of(DType.F32, Values.NORMAL, 17, 6).with(Layout.SWAPPED)));
        cases.add(Case.of(new Contraction.MatMul(), Tolerance.sum(3), Operand.of(DType.I64, Values.SPECIAL, 5, 1),
                Operand.of(DType.I64, Values.NORMAL, 1, 6)).valuesOnly());
        for (Epilogue epilogue : Epilogue.values()) {
            linear(cases, new Contraction.Linear(epilogue));
        }
        linear(cases, new Contraction.Linear(Epilogue.GELU, true));
        for (Epilogue epilogue : List.of(Epilogue.NONE, Epilogue.RELU)) {
            cases.add(Case.of(new Contraction.Linear(epilogue), Tolerance.sum(3),
                    Operand.of(DType.F32, Values.NONFINITE, 13, 3), Operand.of(DType.F32, Values.NORMAL, 4, 3),
                    Operand.of(DType.F32, Values.NORMAL, 4)).valuesOnly());
        }
        for (long[] s : new long[][] {{5, 17, 8}, {1, 1, 1}, {33, 6, 16}, {0, 3, 4}, {7, 0, 5}, {4, 3, 0}, {17, 1, 130},
            {3, 40, 264}}) {
            gradients(cases, new long[] {s[0]}, s[1], s[2]);
        }
        gradients(cases, new long[] {2, 5}, 17, 8);
        gradients(cases, new long[] {3, 1, 1}, 2, 3);
        gradients(cases, new long[] {2, 0, 2}, 2, 3);
        return cases.stream().flatMap(c -> inAllTypes(c));
    }

    private static Case matMul(long[] a, long[] b) {
        return Case.of(new Contraction.MatMul(), Tolerance.sum(a[a.length - 1]),
                Operand.of(DType.F32, Values.NORMAL, a), Operand.of(DType.F32, Values.NORMAL, b));
    }

    private static void gradients(List<Case> cases, long[] lead, long out, long in) {
        Layout[] layouts = lead[lead.length - 1] == 5 ? LAYOUTS : new Layout[0];
        long rows = LongStream.of(lead).reduce(1, (a, b) -> a * b);
        Operand g = Operand.of(DType.F32, Values.NORMAL, LongStream.concat(LongStream.of(lead), LongStream.of(out))
                .toArray());
        Operand x = Operand.of(DType.F32, Values.NORMAL, LongStream.concat(LongStream.of(lead), LongStream.of(in))
                .toArray());
        for (Epilogue epilogue : List.of(Epilogue.RELU, Epilogue.GELU)) {
            inLayouts(Case.of(new Contraction.LinearInputGradient(epilogue), Tolerance.sum(out), g,
                    Operand.of(DType.F32, Values.NORMAL, out, in), x), layouts).forEach(cases::add);
        }
        inLayouts(Case.of(new Contraction.LinearWeightGradient(), Tolerance.sum(rows), g, x), layouts)
                .forEach(cases::add);
    }

    private static void linear(List<Case> cases, Contraction.Linear op) {
        Operand weight = Operand.of(DType.F32, Values.NORMAL, 6, 17);
        Operand bias = Operand.of(DType.F32, Values.NORMAL, 6);
        for (long[] x : new long[][] {{5, 17}, {17}, {2, 3, 17}, {0, 17}, {1, 17}}) {
            Operand operand = Operand.of(DType.F32, Values.NORMAL, x);
            cases.add(Case.of(op, Tolerance.sum(17), operand, weight));
            cases.add(Case.of(op, Tolerance.sum(17), operand, weight, bias));
        }
        inLayouts(Case.of(op, Tolerance.sum(17), Operand.of(DType.F32, Values.NORMAL, 5, 17), weight, bias), LAYOUTS)
                .forEach(cases::add);
        cases.add(Case.of(op, Tolerance.sum(130), Operand.of(DType.F32, Values.NORMAL, 65, 130),
                Operand.of(DType.F32, Values.NORMAL, 33, 130), Operand.of(DType.F32, Values.NORMAL, 33)).valuesOnly());
        // Sizes of outputs that libraries require for GELU.
        Operand wide = Operand.of(DType.F32, Values.NORMAL, 16, 17);
        for (long[] x : new long[][] {{5, 17}, {3, 2, 17}}) {
            Operand operand = Operand.of(DType.F32, Values.NORMAL, x);
            cases.add(Case.of(op, Tolerance.sum(17), operand, wide));
            inLayouts(Case.of(op, Tolerance.sum(17), operand, wide, Operand.of(DType.F32, Values.NORMAL, 16)),
                    Layout.SWAPPED).forEach(cases::add);
        }
        cases.add(Case.of(op, Tolerance.sum(1), Operand.of(DType.F32, Values.NORMAL, 3, 0),
                Operand.of(DType.F32, Values.NORMAL, 4, 0), Operand.of(DType.F32, Values.NORMAL, 4)).valuesOnly());
    }
}
