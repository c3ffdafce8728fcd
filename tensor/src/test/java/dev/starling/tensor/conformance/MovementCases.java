package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Shape;
import dev.starling.tensor.op.Movement;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.View;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Movement}, {@link View} and {@link Transfer}: elements must arrive bit for bit. */
final class MovementCases {
    private MovementCases() {
    }

    static Stream<Case> all() {
        List<Case> cases = new ArrayList<>();
        copies(cases);
        concats(cases);
        places(cases);
        views(cases);
        Operand x = Operand.of(DType.F32, Values.SPECIAL, 5, 17);
        for (Layout layout : List.of(Layout.DENSE, Layout.TRANSPOSED, Layout.STEPPED)) {
            cases.add(new Case(device -> new Transfer(Device.reference()), List.of(x.with(layout)), Tolerance.BITS,
                    false));
            cases.add(new Case(Transfer::new, List.of(x.with(layout)), Tolerance.BITS, false));
        }
        cases.add(Case.of(new Transfer(Device.reference()), Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, 4)));
        return cases.stream().flatMap(ConformanceCases::inAllTypes);
    }

    private static void copies(List<Case> cases) {
        for (long n : ConformanceCases.SIZES) {
            add(cases, new Movement.Copy(), Values.NORMAL, n);
        }
        add(cases, new Movement.Copy(), Values.NORMAL);
        add(cases, new Movement.Copy(), Values.SPECIAL, 75);
        for (long[] shape : new long[][] {{5, 17}, {2, 3, 5, 4}, {64, 65}}) {
            inLayouts(Case.of(new Movement.Copy(), Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, shape)),
                    Layout.values()).forEach(cases::add);
        }
        cases.add(Case.of(new Movement.Copy(), Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, 310, 333)
                .with(Layout.TRANSPOSED)).valuesOnly());
    }

    private static void concats(List<Case> cases) {
        Operand a = Operand.of(DType.F32, Values.NORMAL, 3, 4, 5);
        for (int axis = 0; axis < 3; axis++) {
            Operand narrow = Operand.of(DType.F32, Values.NORMAL, a.shape().with(axis, 1).dims());
            Operand none = Operand.of(DType.F32, Values.NORMAL, a.shape().with(axis, 0).dims());
            Operand wide = Operand.of(DType.F32, Values.NORMAL, a.shape().with(axis, 17).dims());
            inLayouts(Case.of(new Movement.Concat(axis), Tolerance.BITS, a, narrow, none, wide), Layout.TRANSPOSED,
                    Layout.STEPPED, Layout.REVERSED).forEach(cases::add);
        }
        add(cases, new Movement.Concat(0), Values.NORMAL, 17);
        cases.add(Case.of(new Movement.Concat(1), Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, 129, 300),
                Operand.of(DType.F32, Values.NORMAL, 129, 201)).valuesOnly());
    }

    private static void places(List<Case> cases) {
        add(cases, place(new long[] {9}, new long[] {2}, new long[] {1}, 0), Values.NORMAL, 5);
        add(cases, place(new long[] {20}, new long[] {1}, new long[] {3}, 1), Values.NORMAL, 6);
        add(cases, place(new long[] {9}, new long[] {7}, new long[] {-1}, 2), Values.NORMAL, 8);
        add(cases, place(new long[] {4}, new long[] {0}, new long[] {1}, 0), Values.NORMAL, 0);
        add(cases, place(new long[] {}, new long[] {}, new long[] {}, 0), Values.NORMAL);
        Op padding = place(new long[] {2, 3, 7, 35}, new long[] {0, 0, 1, 1}, new long[] {1, 1, 1, 2}, 0);
        inLayouts(Case.of(padding, Tolerance.BITS, Operand.of(DType.F32, Values.NORMAL, 2, 3, 5, 17)),
                Layout.CHANNELS_LAST, Layout.TRANSPOSED, Layout.STEPPED).forEach(cases::add);
    }

    private static Op place(long[] shape, long[] starts, long[] steps, double value) {
        return new Movement.Place(Shape.of(shape), starts, steps, value);
    }

    private static void views(List<Case> cases) {
        add(cases, new View.Reshape(Shape.of(6, 10)), Values.NORMAL, 3, 4, 5);
        add(cases, new View.Reshape(Shape.of(3, 1, 20)), Values.NORMAL, 3, 4, 5);
        add(cases, new View.Reshape(Shape.scalar()), Values.NORMAL, 1, 1);
        add(cases, new View.Reshape(Shape.of(0, 7)), Values.NORMAL, 3, 0);
        cases.add(Case.of(new View.Reshape(Shape.of(3, 20)), Tolerance.BITS,
                Operand.of(DType.F32, Values.NORMAL, 3, 4, 5).with(Layout.REVERSED)));
        add(cases, new View.Permute(2, 0, 1), Values.NORMAL, 3, 4, 5);
        for (int axis = 0; axis < 3; axis++) {
            add(cases, new View.Unstack(axis), Values.NORMAL, 3, 2, 4);
        }
        add(cases, new View.Permute(0, 3, 1, 2), Values.NORMAL, 2, 3, 4, 5);
        add(cases, new View.Expand(Shape.of(2, 3, 5)), Values.NORMAL, 3, 1);
        add(cases, new View.Expand(Shape.of(2, 0)), Values.NORMAL, 2, 1);
        long[] starts = {2, 4};
        long[] steps = {1, -2};
        long[] sizes = {1, 3};
        inLayouts(Case.of(new View.Slice(starts, steps, sizes), Tolerance.BITS,
                Operand.of(DType.F32, Values.NORMAL, 3, 5)), Layout.TRANSPOSED, Layout.STEPPED, Layout.REVERSED)
                .forEach(cases::add);
        add(cases, new View.Slice(new long[] {0}, new long[] {1}, new long[] {0}), Values.NORMAL, 3);
    }

    private static void add(List<Case> cases, Op op, Values values, long... shape) {
        Case c = Case.of(op, Tolerance.BITS, Operand.of(DType.F32, values, shape));
        cases.add(values == Values.SPECIAL ? c.valuesOnly() : c);
    }
}
