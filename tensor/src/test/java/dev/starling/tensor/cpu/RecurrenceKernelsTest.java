package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Recurrence;
import dev.starling.tensor.op.Recurrence.Cell;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Batches that several threads share, compared with the reference; one thread and three make the same bits. */
class RecurrenceKernelsTest {
    private static final double TOLERANCE = 1e-5;

    static Stream<Recurrence.Forward> layers() {
        return Stream.of(false, true).flatMap(reverse -> Stream.of(new Recurrence.Lstm(reverse, true),
                new Recurrence.Lstm(reverse, false), new Recurrence.Gru(reverse, true),
                new Recurrence.Gru(reverse, false), new Recurrence.Rnn(false, reverse, true),
                new Recurrence.Rnn(true, reverse, false)));
    }

    @ParameterizedTest
    @MethodSource("layers")
    void agreeWithTheReference(Recurrence.Forward op) {
        for (long[] s : new long[][] {{5, 13, 6, 20}, {4, 3, 17, 33}, {2, 64, 3, 16}}) {
            try (Scope scope = Scope.open("test")) {
                List<Tensor> in = new ArrayList<>(List.of(Oracle.random(1, s[0], s[1], s[2])));
                int states = op.cell() == Cell.LSTM ? 2 : 1;
                for (int i = 0; i < states; i++) {
                    in.add(Oracle.random(2 + i, s[1], s[3]));
                }
                long rows = op.cell().gates() * s[3];
                in.add(Oracle.random(4, rows, s[2]).mul(0.1));
                in.add(Oracle.random(5, rows, s[3]).mul(0.1));
                in.add(Oracle.random(6, rows));
                in.add(Oracle.random(7, rows));
                check(op, states, in);
                Tensor lengths = Oracle.random(8, s[1]).abs().mul(s[0] / 2.0).to(DType.I64);
                in.add(lengths);
                check(op, states, in);
                for (int i = 1; i <= states; i++) {
                    in.set(i, in.get(i).maskedFill(lengths.eq(0).unsqueeze(1), Double.NaN));
                }
                check(op, states, in);
            }
        }
    }

    private static void check(Recurrence.Forward op, int states, List<Tensor> in) {
        Oracle.Kernel kernel = (o, inputs, outputs) -> RecurrenceKernels.run((Recurrence) o, inputs, outputs);
        Tensor[] results = Oracle.check(kernel, op, TOLERANCE, in.toArray(Tensor[]::new));
        if (!op.keeps() && op.cell().reserved() > 0) {
            return;
        }
        List<Tensor> all = new ArrayList<>();
        for (int i = 0; i <= states; i++) {
            all.add(Oracle.random(20 + i, results[i].shape().dims()));
        }
        all.addAll(Arrays.asList(results[0], results[states + 1]));
        all.addAll(in);
        for (boolean input : new boolean[] {true, false}) {
            Oracle.check(kernel, op.gradient(input), TOLERANCE, all.toArray(Tensor[]::new));
        }
    }

    @Test
    void readsLengthsOnce() {
        try (Scope scope = Scope.open("test")) {
            Recurrence.Rnn op = new Recurrence.Rnn(false, false, true);
            Tensor lengths = Tensor.of(new long[] {2, 1});
            RecurrentSequence sequence = new RecurrentSequence(op, op.operands(new Tensor[] {Tensor.ones(3, 2, 4),
                Tensor.ones(2, 5), Tensor.ones(5, 4), Tensor.ones(5, 5), lengths}));
            lengths.segment().set(ValueLayout.JAVA_LONG, 0, 1 << 30);
            assertThat(sequence.length(0)).isEqualTo(2);
            assertThat(sequence.length(1)).isEqualTo(1);
            sequence.close();
        }
    }
}
