package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.cpu.jit.Opcode;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Cast;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.Unary;
import dev.starling.tensor.spi.Chain;
import java.util.ArrayList;
import java.util.List;

/**
 * Kernels of {@link Elementwise} operations: generated loops of one opcode. A result has the memory layout of the first
 * operand of its shape, if that is dense, so that operations after a convolution keep the convolution's layout.
 */
final class ElementwiseKernels {
    private static final int TYPES = DType.values().length;
    /** For each class of operations, its loops by type; for casts, by pair of types. */
    private static final ClassValue<FusedLoop[]> LOOPS = new ClassValue<>() {
        @Override
        protected FusedLoop[] computeValue(Class<?> type) {
            return new FusedLoop[TYPES * TYPES];
        }
    };

    private ElementwiseKernels() { }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor[] run(Elementwise op, Tensor[] inputs, Spec output) {
        DType type = inputs[inputs.length - 1].dtype();
        FusedLoop loop = loop(op, type);
        if (loop == null) {
            return null;
        }
        Tensor y = Tensor.allocate(output, DenseLayout.of(inputs, output.shape()));
        Launch launch = Launch.of(loop);
        if (op instanceof Unary || op instanceof Activation) {
            setParameters(launch, op, type);
        }
        run(launch, inputs, y);
        return new Tensor[] {y};
    }

    /**
     * Replaces negative elements of a dense tensor by 0, in place. oneDNN could do so before it stores them, but it
     * treats NaN as negative.
     */
    static void rectify(Tensor y) {
        into(y, new Activation.Relu(), y);
    }

    /** Computes all elements of {@code y} from operands with its layout; {@code y} may be one of them. */
    static void into(Tensor y, Activation op, Tensor... operands) {
        Launch launch = Launch.of(loop(op, y.dtype()));
        for (int k = 0; k < operands.length; k++) {
            launch.operand(k, operands[k].address());
        }
        launch.operand(operands.length, y.address());
        launch.runFlat(y.count(), 0);
    }

    /**
     * Returns a chain as one loop, or {@code null} if one of its operations has no loop for its types, or the loop
     * would be too long for the JVM's compilers.
     */
    static Chain.Kernel fuse(Chain chain) {
        Expression.Builder builder = new Expression.Builder();
        List<Expression.Value> values = new ArrayList<>();
        chain.operands().forEach(operand -> values.add(builder.input(operand.dtype())));
        List<Number> parameters = new ArrayList<>();
        for (Chain.Step step : chain.steps()) {
            DType type = chain.spec(step.of().getLast()).dtype();
            Opcode opcode = ElementwiseOpcodes.of(step.op());
            if (step.op() instanceof Cast(DType target)) {
                values.add(builder.cast(values.get(step.of().getFirst()), target));
                continue;
            }
            if (!opcode.computes(type)) {
                return null;
            }
            List<Expression.Value> operands = new ArrayList<>();
            step.of().forEach(value -> operands.add(values.get(value)));
            for (double parameter : ElementwiseOpcodes.parameters(step.op())) {
                operands.add(builder.parameter(type));
                parameters.add(type.isFloating() ? (Number) parameter : (Number) inRange(type, parameter));
            }
            values.add(builder.apply(opcode, operands.toArray(Expression.Value[]::new)));
        }
        Expression expression = builder.output(values.getLast()).build();
        if (!FusedLoop.isCompilable(expression)) {
            return null;
        }
        FusedLoop loop = FusedLoop.of(expression);
        Spec result = chain.result();
        return operands -> {
            Tensor y = Tensor.allocate(result, DenseLayout.of(operands, result.shape()));
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

    private static void setParameters(Launch launch, Elementwise op, DType type) {
        double[] parameters = ElementwiseOpcodes.parameters(op);
        for (int i = 0; i < parameters.length; i++) {
            if (type.isFloating()) {
                launch.parameter(i, parameters[i]);
            } else {
                launch.parameter(i, inRange(type, parameters[i]));
            }
        }
    }

    private static long inRange(DType type, double value) {
        return switch (type) {
            case I32 -> (int) value;
            case I8 -> Math.clamp((long) value, Byte.MIN_VALUE, Byte.MAX_VALUE);
            case U8 -> Math.clamp((long) value, 0, 255);
            default -> (long) value;
        };
    }

    private static FusedLoop loop(Elementwise op, DType type) {
        int slot = switch (op) {
            case Cast(DType target) -> type.ordinal() * TYPES + target.ordinal();
            case Activation.Gelu(boolean tanh) when tanh -> type.ordinal() + TYPES;
            case Activation.GeluGradient(boolean tanh) when tanh -> type.ordinal() + TYPES;
            case Unary.PowScalar(double exponent) when exponent == 2 -> type.ordinal() + TYPES;
            case Unary.PowScalar(double exponent) when exponent == -1 -> type.ordinal() + 2 * TYPES;
            default -> type.ordinal();
        };
        FusedLoop[] loops = LOOPS.get(op.getClass());
        FusedLoop loop = loops[slot];
        if (loop == null) {
            loop = compile(op, type);
            loops[slot] = loop;
        }
        return loop;
    }

    private static FusedLoop compile(Elementwise op, DType type) {
        Opcode opcode = ElementwiseOpcodes.of(op);
        if (op instanceof Cast(DType target)) {
            return FusedLoop.of(Expression.cast(type, target));
        }
        if (!opcode.computes(type)) {
            return null;
        }
        return FusedLoop.of(Expression.of(opcode, type, ElementwiseOpcodes.parameters(op).length));
    }
}
