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

    /**
     * A loop with its parameters.
     *
     * @param bits of the parameters: integers, or doubles in their binary form
     */
    private record Call(FusedLoop loop, long[] bits) {
        private static final long[] NONE = {};

        static Call of(FusedLoop loop, DType type, double[] parameters) {
            long[] bits = parameters.length == 0 ? NONE : new long[parameters.length];
            for (int i = 0; i < bits.length; i++) {
                bits[i] = bits(type, parameters[i]);
            }
            return new Call(loop, bits);
        }

        static long bits(DType type, double parameter) {
            return type.isFloating() ? Double.doubleToRawLongBits(parameter) : Formula.integer(type, parameter);
        }

        private Launch launch() {
            Launch launch = Launch.of(loop);
            for (int i = 0; i < bits.length; i++) {
                launch.parameter(i, bits[i]);
            }
            return launch;
        }

        /** Computes all elements of {@code y} from operands that broadcast to it. */
        void run(Tensor[] inputs, Tensor y) {
            Launch launch = launch();
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
            launch.shape(y.shape());
            for (int k = 0; k < inputs.length; k++) {
                launch.operand(k, inputs[k]);
            }
            launch.operand(inputs.length, y);
            launch.runStrided();
        }

        /** Computes all elements of {@code y} from operands with its layout; {@code y} may be one of them. */
        void runFlat(Tensor[] operands, Tensor y) {
            Launch launch = launch();
            for (int k = 0; k < operands.length; k++) {
                launch.operand(k, operands[k].address());
            }
            launch.operand(operands.length, y.address());
            launch.runFlat(y.count(), 0);
        }
    }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor @Nullable [] run(Elementwise op, Tensor[] inputs, Spec output) {
        Call call = call(op, output.dtype(), inputs);
        if (call == null) {
            return null;
        }
        Tensor y = Storage.allocate(output, DenseLayout.of(inputs, output.shape()));
        call.run(inputs, y);
        return new Tensor[] {y};
    }

    /** Prepares what {@link #run} does; {@code null} if there is no kernel for these types and layouts. */
    static @Nullable Runnable prepare(Elementwise op, Tensor[] inputs, Tensor y) {
        Call call = call(op, y.dtype(), inputs);
        return call == null ? null : () -> call.run(inputs, y);
    }

    private static @Nullable Call call(Elementwise op, DType result, Tensor[] inputs) {
        DType type = inputs[inputs.length - 1].dtype();
        FusedLoop loop = loop(op.formula(), type, result, inputs);
        return loop == null ? null : Call.of(loop, type, op.parameters());
    }

    /**
     * Replaces negative elements of a dense tensor by 0, in place. oneDNN could do so before it stores them, but it
     * treats NaN as negative.
     */
    static void rectify(Tensor y) {
        into(y, Activation.RELU, y);
    }

    /** Prepares what {@link #rectify} does. */
    static Runnable prepareRectify(Tensor y) {
        return prepareInto(y, Activation.RELU, y);
    }

    /** Computes all elements of {@code y} from operands with its layout; {@code y} may be one of them. */
    static void into(Tensor y, Elementwise op, Tensor... operands) {
        Objects.requireNonNull(call(op, y.dtype(), operands)).runFlat(operands, y);
    }

    /** Prepares what {@link #into} does. */
    static Runnable prepareInto(Tensor y, Elementwise op, Tensor... operands) {
        Call call = Objects.requireNonNull(call(op, y.dtype(), operands));
        return () -> call.runFlat(operands, y);
    }

    /** Prepares computing a dense {@code y} as a formula of operands of its type that broadcast to it. */
    static Runnable prepareCompute(Formula formula, Tensor y, Tensor... operands) {
        Call call = new Call(Objects.requireNonNull(loop(formula, y.dtype(), y.dtype(), operands)), Call.NONE);
        return () -> call.run(operands, y);
    }

    /**
     * Returns a chain as one loop, or {@code null} if one of its operations has no loop for its types, or the loop
     * would be too long for the JVM's compilers.
     */
    static Chain.@Nullable Kernel fuse(Chain chain) {
        Expression.Builder builder = new Expression.Builder();
        List<Expression.Value> values = new ArrayList<>();
        chain.operands().forEach(operand -> values.add(builder.input(operand.dtype())));
        List<Long> parameters = new ArrayList<>();
        for (Chain.Step step : chain.steps()) {
            List<Expression.Value> results = FormulaExpression.append(step.op().formula(), builder,
                    step.of().stream().map(values::get).toList());
            if (results == null) {
                return null;
            }
            DType type = chain.spec(step.of().getLast()).dtype();
            for (double parameter : step.op().parameters()) {
                parameters.add(Call.bits(type, parameter));
            }
            values.add(builder.cast(results.getFirst(), step.result().dtype()));
        }
        Expression expression = builder.output(values.getLast()).build();
        if (!FusedLoop.isCompilable(expression)) {
            return null;
        }
        Call call = new Call(FusedLoop.of(expression), parameters.stream().mapToLong(Long::longValue).toArray());
        return new ChainKernel(call, chain.result());
    }

    /** The loop of a chain. */
    private record ChainKernel(Call call, Spec result) implements Chain.Kernel {
        @Override
        public Tensor run(Tensor[] operands) {
            Tensor y = Storage.allocate(result, DenseLayout.of(operands, result.shape()));
            call.run(operands, y);
            return y;
        }

        @Override
        public Runnable prepare(Tensor[] operands, Tensor y) {
            return () -> call.run(operands, y);
        }
    }

    private static @Nullable FusedLoop loop(Formula formula, DType type, DType result, Tensor... inputs) {
        FusedLoop[] loops = LOOPS.get(formula);
        FusedLoop loop = loops == null ? null : loops[type.ordinal() * TYPES + result.ordinal()];
        return loop != null ? loop : compile(formula, type, result, inputs);
    }

    /** Two threads may compile a formula at the same time; they get the same loop. */
    private static @Nullable FusedLoop compile(Formula formula, DType type, DType result, Tensor... inputs) {
        List<DType> types = new ArrayList<>();
        for (Tensor input : inputs) {
            types.add(input.dtype());
        }
        Expression expression = FormulaExpression.of(formula, types, result);
        FusedLoop loop = expression == null ? null : FusedLoop.of(expression);
        FusedLoop[] loops = LOOPS.computeIfAbsent(formula, f -> new FusedLoop[TYPES * TYPES]);
        loops[type.ordinal() * TYPES + result.ordinal()] = loop;
        return loop;
    }
}
