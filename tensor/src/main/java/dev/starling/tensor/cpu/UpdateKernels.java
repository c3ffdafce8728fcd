package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FormulaExpression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.scalar.Formula;
import java.util.Arrays;
import java.util.Collections;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Update} operations: a generated loop of the formula reads parameter, gradient and state and writes
 * parameter and state, in place. Rates and decays are parameters of the loop, so that a schedule needs no new kernel.
 */
final class UpdateKernels {
    private static final Tensor[] DONE = {};
    private static final int TYPES = DType.values().length;
    /** For each formula its loops, by type. */
    private static final ConcurrentHashMap<Formula, FusedLoop[]> LOOPS = new ConcurrentHashMap<>();
    /** The loops of assignments, by the types of source and target. */
    private static final FusedLoop[] COPIES = new FusedLoop[TYPES * TYPES];

    private UpdateKernels() { }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Update op, Tensor[] inputs) {
        if (op instanceof Update.Assign) {
            return assign(inputs);
        }
        DType type = inputs[0].dtype();
        Tensor[] operands = Arrays.copyOf(inputs, 2 * inputs.length);
        int count = inputs.length;
        for (int i = 0; i < inputs.length; i++) {
            if (op.changes(i)) {
                operands[count++] = inputs[i];
            }
        }
        Launch launch = Launch.of(loop(op.formula(), type, inputs, count - inputs.length));
        double[] parameters = op.parameters();
        for (int i = 0; i < parameters.length; i++) {
            launch.parameter(i, parameters[i]);
        }
        run(launch, count, operands);
        return DONE;
    }

    /** Leaves overlapping memory to the reference kernel, which copies through temporary memory. */
    private static Tensor @Nullable [] assign(Tensor[] inputs) {
        if (inputs[0].sharesMemoryWith(inputs[1])) {
            return null;
        }
        run(Launch.of(copy(inputs[1].dtype(), inputs[0].dtype())), 2, inputs[1], inputs[0]);
        return DONE;
    }

    private static FusedLoop copy(DType source, DType target) {
        int index = source.ordinal() * TYPES + target.ordinal();
        FusedLoop known = COPIES[index];
        if (known == null) {
            known = FusedLoop.of(Expression.cast(source, target));
            COPIES[index] = known;
        }
        return known;
    }

    private static FusedLoop loop(Formula formula, DType type, Tensor[] inputs, int outputs) {
        FusedLoop[] loops = LOOPS.get(formula);
        FusedLoop known = loops == null ? null : loops[type.ordinal()];
        if (known != null) {
            return known;
        }
        DType[] results = new DType[outputs];
        Arrays.fill(results, type);
        FusedLoop loop = FusedLoop.of(Objects.requireNonNull(
                FormulaExpression.of(formula, Collections.nCopies(inputs.length, type), results)));
        LOOPS.computeIfAbsent(formula, f -> new FusedLoop[TYPES])[type.ordinal()] = loop;
        return loop;
    }

    private static void run(Launch launch, int count, Tensor... operands) {
        Tensor target = operands[count - 1];
        boolean flat = DenseLayout.isDense(target);
        for (int k = 0; k < count; k++) {
            launch.operand(k, operands[k].address());
            flat &= DenseLayout.isSame(operands[k], target);
        }
        if (flat) {
            launch.runFlat(target.count());
            return;
        }
        launch.shape(target.shape().dims());
        for (int k = 0; k < count; k++) {
            launch.operand(k, operands[k].address(), operands[k].shape().dims(), operands[k].strides());
        }
        launch.runStrided();
    }
}
