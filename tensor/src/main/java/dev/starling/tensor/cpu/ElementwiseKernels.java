package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FormulaExpression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.scalar.Formula;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/**
 * Kernels of {@link Elementwise} operations: generated loops of their formulas. A result has the memory layout of the
 * first operand of its shape, if that is dense, so that operations after a convolution keep the convolution's layout.
 */
final class ElementwiseKernels {
    private static final int TYPES = DType.values().length;
    /** For each formula its loops, by the types of the last operand and of the result. */
    private static final ConcurrentHashMap<Formula, FusedLoop[]> LOOPS = new ConcurrentHashMap<>();

    private ElementwiseKernels() { }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Elementwise op, Tensor[] inputs, Spec output) {
        DType type = inputs[inputs.length - 1].dtype();
        FusedLoop loop = loop(op.formula(), type, output.dtype(), inputs);
        if (loop == null) {
            return null;
        }
        Tensor y = Storage.allocate(output, DenseLayout.of(inputs, output.shape()));
        Launch launch = Launch.of(loop);
        double[] parameters = op.parameters();
        for (int i = 0; i < parameters.length; i++) {
            if (type.isFloating()) {
                launch.parameter(i, parameters[i]);
            } else {
                launch.parameter(i, Formula.integer(type, parameters[i]));
            }
        }
        run(launch, inputs, y);
        return new Tensor[] {y};
    }

    /**
     * Replaces negative elements of a dense tensor by 0, in place. oneDNN could do so before it stores them, but it
     * treats NaN as negative.
     */
    static void rectify(Tensor y) {
        into(y, Activation.RELU, y);
    }

    /** Computes all elements of {@code y} from operands with its layout; {@code y} may be one of them. */
    static void into(Tensor y, Elementwise op, Tensor... operands) {
        Launch launch = Launch.of(Objects.requireNonNull(loop(op.formula(), y.dtype(), y.dtype(), operands)));
        for (int k = 0; k < operands.length; k++) {
            launch.operand(k, operands[k].address());
        }
        launch.operand(operands.length, y.address());
        launch.runFlat(y.count(), 0);
    }

    /** Computes all elements of a dense {@code y} as a formula of operands of its type that broadcast to it. */
    static void compute(Formula formula, Tensor y, Tensor... operands) {
        run(Launch.of(Objects.requireNonNull(loop(formula, y.dtype(), y.dtype(), operands))), operands, y);
    }

    /**
     * Returns a chain as one loop, or {@code null} if one of its operations has no loop for its types, or the loop
     * would be too long for the JVM's compilers.
     */
    static Chain.@Nullable Kernel fuse(Chain chain) {
        Expression.Builder builder = new Expression.Builder();
        List<Expression.Value> values = new ArrayList<>();
        chain.operands().forEach(operand -> values.add(builder.input(operand.dtype())));
        List<Number> parameters = new ArrayList<>();
        for (Chain.Step step : chain.steps()) {
            List<Expression.Value> results = FormulaExpression.append(step.op().formula(), builder,
                    step.of().stream().map(values::get).toList());
            if (results == null) {
                return null;
            }
            DType type = chain.spec(step.of().getLast()).dtype();
            for (double parameter : step.op().parameters()) {
                parameters.add(type.isFloating() ? (Number) parameter : (Number) Formula.integer(type, parameter));
            }
            values.add(builder.cast(results.getFirst(), step.result().dtype()));
        }
        Expression expression = builder.output(values.getLast()).build();
        if (!FusedLoop.isCompilable(expression)) {
            return null;
        }
        FusedLoop loop = FusedLoop.of(expression);
        Spec result = chain.result();
        return operands -> {
            Tensor y = Storage.allocate(result, DenseLayout.of(operands, result.shape()));
            Launch launch = Launch.of(loop);
            for (int i = 0; i < parameters.size(); i++) {
                if (parameters.get(i) instanceof Double real) {
                    launch.parameter(i, real.doubleValue());
                } else {
                    launch.parameter(i, parameters.get(i).longValue());
                }
            }
            run(launch, operands, y);
            return y;
        };
    }

    private static void run(Launch launch, Tensor[] inputs, Tensor y) {
        int scalars = 0;
        boolean flat = true;
        for (int k = 0; k < inputs.length && flat; k++) {
            Tensor x = inputs[k];
            launch.operand(k, x.address());
            if (!DenseLayout.isSame(x, y)) {
                scalars |= 1 << k;
                flat = x.count() == 1;
            }
        }
        if (flat) {
            launch.operand(inputs.length, y.address());
            launch.runFlat(y.count(), scalars);
            return;
        }
        launch.shape(y.shape().dims());
        for (int k = 0; k < inputs.length; k++) {
            Tensor x = inputs[k];
            launch.operand(k, x.address(), x.shape().dims(), x.strides());
        }
        launch.operand(inputs.length, y.address(), y.shape().dims(), y.strides());
        launch.runStrided();
    }

    private static @Nullable FusedLoop loop(Formula formula, DType type, DType result, Tensor... inputs) {
        FusedLoop[] loops = LOOPS.get(formula);
        FusedLoop loop = loops == null ? null : loops[type.ordinal() * TYPES + result.ordinal()];
        return loop != null ? loop : compile(formula, type, result, inputs);
    }

    /** Two threads may compile a formula at the same time; they get the same loop. */
    private static @Nullable FusedLoop compile(Formula formula, DType type, DType result, Tensor... inputs) {
        List<DType> types = Arrays.stream(inputs).map(Tensor::dtype).toList();
        Expression expression = FormulaExpression.of(formula, types, result);
        FusedLoop loop = expression == null ? null : FusedLoop.of(expression);
        FusedLoop[] loops = LOOPS.computeIfAbsent(formula, f -> new FusedLoop[TYPES * TYPES]);
        loops[type.ordinal() * TYPES + result.ordinal()] = loop;
        return loop;
    }
}
