package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inAllTypes;
import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Pooling.Window;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;

/** Cases of {@link Pooling}: windows that overlap, leave gaps, reach into padding or over the edge. */
final class PoolingCases {
    private static final Layout[] LAYOUTS = {Layout.CHANNELS_LAST, Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED};

    private PoolingCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        add(cases, Window.of(1, 2, 2, 0), 2, 3, 17);
        add(cases, Window.of(1, 3, 1, 1), 2, 3, 16);
        add(cases, Window.of(2, 2, 2, 0), 2, 17, 8, 6);
        add(cases, Window.of(2, 3, 2, 1), 2, 3, 9, 8);
        add(cases, Window.of(2, 1, 2, 0), 1, 2, 5, 5);
        add(cases, Window.of(2, 4, 4, 0), 1, 5, 4, 4);
        add(cases, Window.of(2, 2, 3, 0), 1, 2, 8, 8);
        add(cases, Window.of(2, 2, 2, 0), 0, 3, 4, 4);
        add(cases, ceil(3, 2, 0), 1, 2, 8, 6);
        add(cases, ceil(3, 2, 1), 1, 2, 6, 8);
        add(cases, ceil(2, 3, 1), 1, 2, 6, 7);
        add(cases, new Window(new int[] {2, 3}, new int[] {1, 2}, new int[] {0, 1}, new int[] {1, 1}, false), 1, 2, 5,
                7);
        add(cases, Window.of(3, 2, 2, 0), 1, 2, 4, 5, 6);
        add(cases, Window.of(3, 3, 1, 1), 1, 2, 3, 4, 3);
        Window dilated = new Window(new int[] {2, 3}, new int[] {1, 1}, new int[] {1, 1}, new int[] {2, 2}, false);
        max(cases, dilated, Values.DISTINCT, 1, 2, 7, 8);
        // The first of equal elements wins; NaN is the maximum; padding never is, not even below all elements.
        max(cases, Window.of(2, 3, 2, 1), Values.TIES, 2, 3, 9, 8);
        max(cases, Window.of(2, 2, 2, 0), Values.SPECIAL, 2, 3, 10, 10);
        max(cases, Window.of(1, 3, 1, 1), Values.SPECIAL, 1, 1, 75);
        Window window = Window.of(2, 3, 2, 1);
        Operand x = Operand.of(DType.F32, Values.DISTINCT, 2, 3, 7, 6);
        Operand y = Operand.of(DType.F32, Values.NORMAL, 2, 3, 4, 3);
        inLayouts(Case.of(new Pooling.MaxPool(window), Tolerance.BITS, x), LAYOUTS).forEach(cases::add);
        inLayouts(Case.of(new Pooling.AvgPool(window, false), Tolerance.sum(9), x), LAYOUTS).forEach(cases::add);
        inLayouts(Case.of(new Pooling.AvgPoolGradient(window, false, x.shape()), Tolerance.sum(9), y), LAYOUTS)
                .forEach(cases::add);
        Stream<Case> typed = maxGradients();
        return Stream.concat(cases.stream().flatMap(c -> inAllTypes(c)), typed);
    }

    private static Window ceil(int kernel, int stride, int padding) {
        Window w = Window.of(2, kernel, stride, padding);
        return new Window(w.kernel(), w.stride(), w.padding(), w.dilation(), true);
    }

    private static void add(List<Case> cases, Window window, long... shape) {
        Shape x = Shape.of(shape);
        Shape y = output(window, x);
        max(cases, window, Values.DISTINCT, shape);
        for (boolean countPadding : new boolean[] {false, true}) {
            cases.add(Case.of(new Pooling.AvgPool(window, countPadding), Tolerance.sum(9),
                    Operand.of(DType.F32, Values.NORMAL, shape)));
            cases.add(Case.of(new Pooling.AvgPoolGradient(window, countPadding, x), Tolerance.sum(9),
                    Operand.of(DType.F32, Values.NORMAL, y.dims())));
        }
    }

    private static void max(List<Case> cases, Window window, Values values, long... shape) {
        Case c = Case.of(new Pooling.MaxPool(window), Tolerance.BITS, Operand.of(DType.F32, values, shape));
        cases.add(values == Values.DISTINCT ? c : c.valuesOnly());
    }

    /** Gradients of the maximum at random positions, some of them shared by several windows. */
    private static Stream<Case> maxGradients() {
        List<Case> cases = new ArrayList<>();
        Window window = Window.of(2, 3, 1, 1);
        Shape x = Shape.of(2, 3, 5, 6);
        double[] places = new Random(5).ints(180, 0, 30).asDoubleStream().toArray();
        for (DType type : ConformanceCases.FLOATING) {
            for (DType index : ConformanceCases.INDICES) {
                inLayouts(Case.of(new Pooling.MaxPoolGradient(window, x), Tolerance.sum(9),
                        Operand.of(type, Values.NORMAL, 2, 3, 5, 6), Operand.literal(index, places, 2, 3, 5, 6)),
                        LAYOUTS).forEach(cases::add);
            }
        }
        return cases.stream();
    }

    private static Shape output(Window window, Shape x) {
        return new Pooling.AvgPool(window, true).infer(new Spec(DType.F32, x, Device.reference()))[0].shape();
    }
}
