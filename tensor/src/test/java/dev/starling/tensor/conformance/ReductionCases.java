package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Axes;
import dev.starling.tensor.op.Reduction;
import dev.starling.tensor.op.Scan;
import dev.starling.tensor.op.Sorting;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.stream.Stream;

/** Cases of {@link Reduction}, {@link Scan} and {@link Sorting}. */
final class ReductionCases {
    private static final Layout[] LAYOUTS = {Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED, Layout.INNER,
        Layout.REPEATED};

    private ReductionCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        List<BiFunction<Axes, Boolean, Reduction>> identities = List.of(Reduction.Sum::new, Reduction.Mean::new,
                Reduction.Prod::new, Reduction.Any::new, Reduction.All::new);
        List<BiFunction<Axes, Boolean, Reduction>> extremes = List.of(Reduction.Max::new, Reduction.Min::new,
                Reduction.ArgMax::new, Reduction.ArgMin::new);
        for (BiFunction<Axes, Boolean, Reduction> make : identities) {
            reductions(cases, make, make.apply(new Axes(0), false) instanceof Reduction.Prod ? Values.NEAR_ONE
                    : Values.NORMAL);
            empty(cases, make);
        }
        for (BiFunction<Axes, Boolean, Reduction> make : extremes) {
            reductions(cases, make, Values.DISTINCT);
            reduce(cases, make, Values.TIES, new long[] {4, 33}, 1);
            reduce(cases, make, Values.TIES, new long[] {33, 4}, 0);
            reduce(cases, make, Values.TIES, new long[] {}, new int[0]);
        }
        scans(cases);
        sorts(cases);
        return cases.stream().flatMap(ConformanceCases::inAllTypes);
    }

    private static void reductions(List<Case> cases, BiFunction<Axes, Boolean, Reduction> make, Values values) {
        for (long n : ConformanceCases.SIZES) {
            if (n > 0) {
                reduce(cases, make, values, new long[] {n}, 0);
            }
        }
        reduce(cases, make, values, new long[] {}, new int[0]);
        reduce(cases, make, values, new long[] {0, 3}, 1);
        for (int[] axes : new int[][] {{0}, {1}, {0, 1}}) {
            inLayouts(reduction(make, values, new long[] {5, 17}, axes), LAYOUTS).forEach(cases::add);
        }
        for (int[] axes : new int[][] {{1, 3}, {0, 2, 3}, {1}, {2}, {3}, {0, 1, 2, 3}}) {
            inLayouts(reduction(make, values, new long[] {2, 3, 5, 7}, axes), Layout.CHANNELS_LAST, Layout.SWAPPED)
                    .forEach(cases::add);
        }
        cases.add(reduction(make, values, new long[] {ConformanceCases.LARGE}, 0).valuesOnly());
        cases.add(reduction(make, values, new long[] {301, 333}, 0).valuesOnly());
        cases.add(reduction(make, values, new long[] {301, 333}, 1).valuesOnly());
        cases.add(reduction(make, values, new long[] {16, 32, 65}, 0, 2).valuesOnly());
        // Of consecutive special values some lines have a NaN, some infinities, some neither.
        Values special = values == Values.DISTINCT ? Values.SPECIAL : Values.NONFINITE;
        for (int axis : new int[] {0, 1}) {
            cases.add(reduction(make, special, new long[] {20, 5}, axis).valuesOnly());
            cases.add(reduction(make, special, new long[] {5, 20}, axis).valuesOnly());
        }
    }

    private static void empty(List<Case> cases, BiFunction<Axes, Boolean, Reduction> make) {
        reduce(cases, make, Values.NORMAL, new long[] {0}, 0);
        reduce(cases, make, Values.NORMAL, new long[] {4, 0, 3}, 1);
        reduce(cases, make, Values.NORMAL, new long[] {5, 3}, new int[0]);
    }

    private static void reduce(List<Case> cases, BiFunction<Axes, Boolean, Reduction> make, Values values, long[] shape,
            int... axes) {
        cases.add(reduction(make, values, shape, axes));
        if (axes.length > 0) {
            Axes set = Axes.of(Shape.of(shape), axes);
            cases.add(Case.of(make.apply(set, true), tolerance(set, shape), Operand.of(DType.F32, values, shape)));
        }
    }

    private static Case reduction(BiFunction<Axes, Boolean, Reduction> make, Values values, long[] shape,
            int... axes) {
        Axes set = axes.length == 0 ? new Axes(0) : Axes.of(Shape.of(shape), axes);
        return Case.of(make.apply(set, false), tolerance(set, shape), Operand.of(DType.F32, values, shape));
    }

    private static Tolerance tolerance(Axes set, long... shape) {
        return Tolerance.sum(set.extent(Shape.of(shape)));
    }

    private static void scans(List<Case> cases) {
        for (boolean reverse : new boolean[] {false, true}) {
            for (long n : ConformanceCases.SIZES) {
                cases.add(scan(0, reverse, n));
            }
            cases.add(scan(0, reverse, ConformanceCases.LARGE).valuesOnly());
            for (int axis = 0; axis < 3; axis++) {
                inLayouts(scan(axis, reverse, 3, 4, 17), LAYOUTS).forEach(cases::add);
            }
        }
    }

    private static Case scan(int axis, boolean reverse, long... shape) {
        return Case.of(new Scan.CumSum(axis, reverse), Tolerance.sum(shape[axis]),
                Operand.of(DType.F32, Values.NORMAL, shape));
    }

    private static void sorts(List<Case> cases) {
        for (boolean descending : new boolean[] {false, true}) {
            for (Values values : List.of(Values.DISTINCT, Values.TIES, Values.SPECIAL)) {
                for (long n : new long[] {0, 1, 7, 16, 33, 1037}) {
                    sort(cases, new Sorting.Sort(0, descending), values, n);
                    for (long k : new long[] {0, 1, Math.min(n, 5), n}) {
                        if (k <= n) {
                            sort(cases, new Sorting.TopK(k, 0, descending), values, n);
                        }
                    }
                }
                for (int axis = 0; axis < 2; axis++) {
                    sort(cases, new Sorting.Sort(axis, descending), values, 6, 17);
                    sort(cases, new Sorting.TopK(4, axis, descending), values, 6, 17);
                }
            }
        }
        inLayouts(Case.of(new Sorting.Sort(1, false), Tolerance.BITS, Operand.of(DType.F32, Values.TIES, 6, 17)),
                LAYOUTS).forEach(cases::add);
        inLayouts(Case.of(new Sorting.TopK(3, 1, true), Tolerance.BITS, Operand.of(DType.F32, Values.TIES, 6, 17)),
                LAYOUTS).forEach(cases::add);
        cases.add(Case.of(new Sorting.Sort(0, true), Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, 20_011))
                .valuesOnly());
    }

    private static void sort(List<Case> cases, Sorting op, Values values, long... shape) {
        Case c = Case.of(op, Tolerance.BITS, Operand.of(DType.F32, values, shape));
        cases.add(values == Values.DISTINCT ? c : c.valuesOnly());
    }
}
