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
        int outputs = 0;
        for (int i = 0; i < inputs.length; i++) {
            outputs += op.changes(i) ? 1 : 0;
        }
        Launch launch = Launch.of(loop(op.formula(), inputs[0].dtype(), inputs, outputs));
        setParameters(launch, op);
        boolean flat = DenseLayout.isDense(inputs[0]);
        for (int i = 1; i < inputs.length; i++) {
            flat &= DenseLayout.isSame(inputs[i], inputs[0]);
        }
        if (!flat) {
            launch.shape(inputs[0].shape());
        }
        for (int i = 0, output = inputs.length; i < inputs.length; i++) {
            set(launch, i, inputs[i], flat);
            if (op.changes(i)) {
                set(launch, output++, inputs[i], flat);
            }
        }
        run(launch, inputs[0], flat);
        return DONE;
    }

    private static void setParameters(Launch launch, Update op) {
        if (op instanceof Update.Step step) {
            for (int i = 0; i < op.formula().parameters(); i++) {
                launch.parameter(i, step.rule().coefficient(i, step.rate(), step.step()));
            }
        } else {
            double[] parameters = op.parameters();
            for (int i = 0; i < parameters.length; i++) {
                launch.parameter(i, parameters[i]);
            }
        }
    }

    private static void set(Launch launch, int operand, Tensor x, boolean flat) {
        if (flat) {
            launch.operand(operand, x.address());
        } else {
            launch.operand(operand, x);
        }
    }

    private static void run(Launch launch, Tensor target, boolean flat) {
        if (flat) {
            launch.runFlat(target.count());
        } else {
            launch.runStrided();
        }
    }

    private static Tensor[] assign(Tensor[] inputs) {
        Tensor target = inputs[0];
        Launch launch = Launch.of(copy(inputs[1].dtype(), target.dtype()));
        boolean flat = DenseLayout.isDense(target) && DenseLayout.isSame(inputs[1], target);
        if (!flat) {
            launch.shape(target.shape());
        }
        set(launch, 0, inputs[1], flat);
        set(launch, 1, target, flat);
        run(launch, target, flat);
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
}
