package dev.starling.tensor.conformance;

import static dev.starling.tensor.conformance.ConformanceCases.inLayouts;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;

/** Cases of {@link Recurrence}. */
final class RecurrenceCases {
    private static final Tolerance TOLERANCE = Tolerance.sum(16).cancelling(4);
    /** Lengths above, equal to and below the number of steps, and 0. */
    private static final double[] LENGTHS = {2, 3, 0, 3, 1, 1, 2};

    private RecurrenceCases() {
    }

    static Stream<Case> all() {
        return ConformanceCases.FLOATING.stream().flatMap(RecurrenceCases::of);
    }

    private static Stream<Case> of(DType type) {
        List<Case> cases = new ArrayList<>();
        for (boolean reverse : new boolean[] {false, true}) {
            for (Recurrence.Forward op : List.of(new Recurrence.Lstm(reverse, true), new Recurrence.Gru(reverse, true),
                    new Recurrence.Rnn(false, reverse, true), new Recurrence.Rnn(true, reverse, true))) {
                sizes(cases, type, op);
                Case small = Case.of(op, TOLERANCE, operands(type, op, true, DType.I64, 3, 2, 4, 5));
                inLayouts(small, Layout.STEPPED, Layout.REVERSED, Layout.TRANSPOSED).forEach(cases::add);
                Case slope = Case.of(op.gradient(true), TOLERANCE.cancelling(16), slopes(type, op, 3, 2, 4, 5));
                inLayouts(slope, Layout.STEPPED, Layout.TRANSPOSED).forEach(cases::add);
            }
            for (Recurrence.Forward op : List.of(new Recurrence.Lstm(reverse, false),
                    new Recurrence.Gru(reverse, false), new Recurrence.Rnn(false, reverse, false),
                    new Recurrence.Rnn(true, reverse, false))) {
                cases.add(Case.of(op, TOLERANCE, operands(type, op, true, null, 3, 2, 4, 5)));
                cases.add(Case.of(op, TOLERANCE, operands(type, op, false, DType.I32, 3, 7, 17, 16)));
            }
        }
        return cases.stream().map(c -> rectifiedHalf(type, c.on(Device.reference())) ? c.valuesOnly() : c);
    }

    /** Rounding to 16 bits decides on which side of the rectifier's kink a small sum is. */
    private static boolean rectifiedHalf(DType type, Op op) {
        return type.bytes() == 2 && op instanceof Recurrence.Rnn layer && layer.rectified();
    }

    /** Sizes are those of steps, batch, inputs and units; some are empty, some divide the batch among threads. */
    private static void sizes(List<Case> cases, DType type, Recurrence.Forward op) {
        for (long[] s : new long[][] {{1, 1, 1, 1}, {3, 2, 4, 5}, {9, 3, 2, 3}, {2, 9, 5, 1}, {3, 5, 3, 16},
            {3, 17, 17, 33}, {0, 2, 3, 4}, {3, 0, 4, 5}, {3, 2, 0, 4}, {2, 3, 4, 0}}) {
            cases.add(Case.of(op, TOLERANCE, operands(type, op, true, null, s)));
            cases.add(Case.of(op, TOLERANCE, operands(type, op, false, null, s)));
            cases.add(Case.of(op, TOLERANCE, operands(type, op, true, DType.I64, s)));
            cases.add(Case.of(op, TOLERANCE, operands(type, op, false, DType.I32, s)));
            cases.add(Case.of(op.gradient(true), TOLERANCE.cancelling(16), slopes(type, op, s)));
            cases.add(Case.of(op.gradient(false), TOLERANCE.cancelling(16), slopes(type, op, s)));
        }
    }

    private static Operand[] operands(DType type, Recurrence.Forward op, boolean biased, DType lengths, long... s) {
        List<Operand> all = new ArrayList<>();
        long rows = op.cell().gates() * s[3];
        all.add(Operand.of(type, Values.NORMAL, s[0], s[1], s[2]));
        for (int i = 0; i < (op.cell() == Cell.LSTM ? 2 : 1); i++) {
            all.add(unit(type, s[1], s[3]));
        }
        all.add(unit(type, rows, s[2]));
        all.add(unit(type, rows, s[3]));
        if (biased) {
            all.add(unit(type, rows));
            all.add(unit(type, rows));
        }
        if (lengths != null) {
            double[] each = new double[(int) s[1]];
            Arrays.setAll(each, n -> Math.min(LENGTHS[n % LENGTHS.length], s[0]));
            all.add(Operand.literal(lengths, each, s[1]));
        }
        return all.toArray(Operand[]::new);
    }

    /** Without lengths: y and reserve would have to be 0 past them. The layers' own gradients are with them. */
    private static Operand[] slopes(DType type, Recurrence.Forward op, long... s) {
        List<Operand> all = new ArrayList<>();
        all.add(unit(type, s[0], s[1], s[3]));
        for (int i = 0; i < (op.cell() == Cell.LSTM ? 2 : 1); i++) {
            all.add(unit(type, s[1], s[3]));
        }
        all.add(unit(type, s[0], s[1], s[3]));
        all.add(unit(type, s[0], s[1], op.cell().reserved() * s[3]));
        all.addAll(List.of(operands(type, op, true, null, s)));
        return all.toArray(Operand[]::new);
    }

    private static Operand unit(DType type, long... shape) {
        return Operand.of(type, Values.UNIT, shape);
    }
}
