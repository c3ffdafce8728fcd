package dev.starling.tensor.conformance;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.CrossEntropy;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Pooling;
import dev.starling.tensor.op.Selection;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/**
 * On every device an index out of range is an error that names its position. The operation reports it, or the read of
 * its result.
 */
final class BadIndices {
    private record Call(Op op, List<Operand> operands) { }

    private BadIndices() {
    }

    static Stream<DynamicTest> on(Device device) {
        Operand x = Operand.of(DType.F32, Values.NORMAL, 2, 3);
        List<Call> calls = new ArrayList<>();
        for (long bad : new long[] {3, -4, 1L << 40}) {
            Operand index = Operand.literal(DType.I64, new double[] {0, -3, 2, bad}, 2, 2);
            calls.add(call(new Selection.Take(1), x, index));
            calls.add(call(new Selection.TakeGradient(0, 3), Operand.of(DType.F32, Values.NORMAL, 2, 2, 5),
                index));
            calls.add(call(new Selection.Gather(1), x, index));
            calls.add(call(new Selection.Scatter(1), x, index, Operand.of(DType.F32, Values.NORMAL, 2, 2)));
            calls.add(call(new Selection.ScatterAdd(1), x, index,
                Operand.of(DType.F32, Values.NORMAL, 2, 2)));
        }
        Operand target = Operand.literal(DType.I64, new double[] {0, 1, -100, 3}, 4);
        Operand logits = Operand.of(DType.F32, Values.NORMAL, 4, 3);
        calls.add(call(new CrossEntropy.Loss(0, -100), logits, target));
        calls.add(call(new CrossEntropy.Gradient(0, -100), Operand.of(DType.F32, Values.NORMAL, 4), logits,
            Operand.of(DType.F32, Values.NORMAL, 4, 2), target));
        Operand places = Operand.literal(DType.I32, new double[] {0, 4, 3, 16}, 1, 1, 2, 2);
        calls.add(call(new Pooling.MaxPoolGradient(Pooling.Window.of(2, 2, 2, 0), Shape.of(1, 1, 4, 4)),
                Operand.of(DType.F32, Values.NORMAL, 1, 1, 2, 2), places));
        return calls.stream().map(c -> DynamicTest.dynamicTest("bad index for " + c.op().name(),
                () -> fails(device, c.op(), c.operands())));
    }

    private static Call call(Op op, Operand... operands) {
        return new Call(op, List.of(operands));
    }

    private static void fails(Device device, Op op, List<Operand> operands) {
        try (Scope scope = Scope.open()) {
            Tensor[] inputs = operands.stream().map(o -> o.on(device, 1)).toArray(Tensor[]::new);
            TensorException e = assertThrows(TensorException.class, () -> {
                for (Tensor output : Tensor.apply(op, inputs)) {
                    output.toDoubles();
                }
            });
            assertEquals(TensorException.Problem.INDEX, e.problem());
            assertEquals(op.name(), e.op());
            assertTrue(e.relation().matches(".*\\b3\\b.*"), e.getMessage());
        }
    }
}
