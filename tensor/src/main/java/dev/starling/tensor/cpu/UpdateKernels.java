package dev.starling.tensor.cpu;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.cpu.jit.Expression;
import dev.starling.tensor.cpu.jit.Expression.Value;
import dev.starling.tensor.cpu.jit.FusedLoop;
import dev.starling.tensor.cpu.jit.Launch;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * Kernels of {@link Update} operations: one generated loop reads parameter, gradient and state and writes parameter and
 * state, in place. Rates and decays are parameters of the loop, so that a schedule needs no new kernel.
 */
final class UpdateKernels {
    private static final Tensor[] DONE = {};
    private static final ConcurrentHashMap<Form, FusedLoop> LOOPS = new ConcurrentHashMap<>();

    private UpdateKernels() { }

    /** The key of a loop. */
    private record Form(Class<?> op, DType type, DType source, boolean first, boolean second) { }

    /** Returns the results, or {@code null} if there is no kernel for these types and layouts. */
    static Tensor[] run(Update op, Tensor[] inputs) {
        DType type = inputs[0].dtype();
        if (!(op instanceof Update.Assign) && !type.isFloating()) {
            return null;
        }
        return switch (op) {
            case Update.Assign assign -> assign(assign, inputs);
            case Update.Blend blend -> blend(blend, inputs, type);
            case Update.RunningStatistics running -> runningStatistics(running, inputs, type);
            case Update.Sgd sgd -> sgd(sgd, inputs, type);
            case Update.Adam adam -> adam(adam, inputs, type);
        };
    }

    /** Leaves overlapping memory to the reference kernel, which copies through temporary memory. */
    private static Tensor[] assign(Update.Assign op, Tensor[] inputs) {
        if (inputs[0].sharesMemoryWith(inputs[1])) {
            return null;
        }
        Form form = new Form(op.getClass(), inputs[0].dtype(), inputs[1].dtype(), false, false);
        FusedLoop loop = LOOPS.computeIfAbsent(form, f -> FusedLoop.of(Expression.cast(f.source, f.type)));
        run(Launch.of(loop), inputs[1], inputs[0]);
        return DONE;
    }

    private static Tensor[] blend(Update.Blend op, Tensor[] inputs, DType type) {
        FusedLoop loop = loop(new Form(op.getClass(), type, type, false, false), f -> {
            Expression.Builder b = new Expression.Builder();
            Value target = b.input(type);
            Value source = b.input(type);
            Value kept = b.apply(Opcode.MUL, target, b.parameter(type));
            return b.output(b.apply(Opcode.FMA, source, b.parameter(type), kept)).build();
        });
        Launch launch = Launch.of(loop);
        launch.parameter(0, op.decay());
        launch.parameter(1, op.weight());
        run(launch, inputs[0], inputs[1], inputs[0]);
        return DONE;
    }

    private static Tensor[] runningStatistics(Update.RunningStatistics op, Tensor[] inputs, DType type) {
        FusedLoop loop = loop(new Form(op.getClass(), type, type, false, false), f -> runningStatistics(type));
        Launch launch = Launch.of(loop);
        launch.parameter(0, op.epsilon());
        launch.parameter(1, op.unbiased());
        launch.parameter(2, 1 - op.weight());
        launch.parameter(3, op.weight());
        run(launch, inputs[0], inputs[1], inputs[2], inputs[3], inputs[0], inputs[2]);
        return DONE;
    }

    private static Expression runningStatistics(DType type) {
        Expression.Builder b = new Expression.Builder();
        Value mean = b.input(type);
        Value batchMean = b.input(type);
        Value variance = b.input(type);
        Value square = b.apply(Opcode.RECIPROCAL, b.apply(Opcode.SQUARE, b.input(type)));
        Value biased = b.apply(Opcode.MAXIMUM, b.apply(Opcode.SUB, square, b.parameter(type)), b.constant(type, 0));
        Value batchVariance = b.apply(Opcode.MUL, biased, b.parameter(type));
        Value sound = b.apply(Opcode.AND, b.apply(Opcode.IS_FINITE, batchVariance),
                b.apply(Opcode.IS_FINITE, batchMean));
        Value kept = b.parameter(type);
        Value weight = b.parameter(type);
        Value nextMean = b.apply(Opcode.FMA, batchMean, weight, b.apply(Opcode.MUL, mean, kept));
        Value nextVariance = b.apply(Opcode.FMA, batchVariance, weight, b.apply(Opcode.MUL, variance, kept));
        return b.output(b.apply(Opcode.WHERE, sound, nextMean, mean))
                .output(b.apply(Opcode.WHERE, sound, nextVariance, variance)).build();
    }

    private static Tensor[] sgd(Update.Sgd op, Tensor[] inputs, DType type) {
        boolean withVelocity = inputs.length == 3;
        FusedLoop loop = loop(new Form(op.getClass(), type, type, withVelocity, op.nesterov()),
                f -> sgd(type, withVelocity, op.nesterov()));
        Launch launch = Launch.of(loop);
        launch.parameter(0, -op.rate());
        launch.parameter(1, op.weightDecay());
        if (!withVelocity) {
            run(launch, inputs[0], inputs[1], inputs[0]);
            return DONE;
        }
        launch.parameter(2, op.momentum());
        launch.parameter(3, 1 - op.dampening());
        run(launch, inputs[0], inputs[1], inputs[2], inputs[0], inputs[2]);
        return DONE;
    }

    private static Expression sgd(DType type, boolean withVelocity, boolean nesterov) {
        Expression.Builder b = new Expression.Builder();
        Value p = b.input(type);
        Value g = b.input(type);
        Value rate = b.parameter(type);
        g = b.apply(Opcode.FMA, p, b.parameter(type), g);
        if (!withVelocity) {
            return b.output(b.apply(Opcode.FMA, g, rate, p)).build();
        }
        Value momentum = b.parameter(type);
        Value v = b.apply(Opcode.MUL, b.input(type), momentum);
        v = b.apply(Opcode.FMA, g, b.parameter(type), v);
        Value step = nesterov ? b.apply(Opcode.FMA, v, momentum, g) : v;
        return b.output(b.apply(Opcode.FMA, step, rate, p)).output(v).build();
    }

    private static Tensor[] adam(Update.Adam op, Tensor[] inputs, DType type) {
        FusedLoop loop = loop(new Form(op.getClass(), type, type, op.decoupled(), false),
                f -> adam(type, op.decoupled()));
        Launch launch = Launch.of(loop);
        launch.parameter(0, op.decoupled() ? 1 - op.rate() * op.weightDecay() : op.weightDecay());
        launch.parameter(1, op.beta1());
        launch.parameter(2, 1 - op.beta1());
        launch.parameter(3, op.beta2());
        launch.parameter(4, 1 - op.beta2());
        launch.parameter(5, -op.rate() / (1 - StrictMath.pow(op.beta1(), op.step())));
        launch.parameter(6, 1 / Math.sqrt(1 - StrictMath.pow(op.beta2(), op.step())));
        launch.parameter(7, op.epsilon());
        run(launch, inputs[0], inputs[1], inputs[2], inputs[3], inputs[0], inputs[2], inputs[3]);
        return DONE;
    }

    /**
     * Weight decay either shrinks the parameter or is added to the gradient. One loop for both would add 0 times the
     * parameter to the gradient, which is NaN for a parameter that is not finite. One of the bias corrections is part
     * of the rate, the other is a factor of the root.
     */
    private static Expression adam(DType type, boolean decoupled) {
        Expression.Builder b = new Expression.Builder();
        Value p = b.input(type);
        Value g = b.input(type);
        Value decay = b.parameter(type);
        Value shrunk = decoupled ? b.apply(Opcode.MUL, p, decay) : p;
        g = decoupled ? g : b.apply(Opcode.FMA, p, decay, g);
        Value m = b.apply(Opcode.MUL, b.input(type), b.parameter(type));
        m = b.apply(Opcode.FMA, g, b.parameter(type), m);
        Value v = b.apply(Opcode.MUL, b.input(type), b.parameter(type));
        v = b.apply(Opcode.FMA, b.apply(Opcode.SQUARE, g), b.parameter(type), v);
        Value rate = b.parameter(type);
        Value root = b.apply(Opcode.SQRT, v);
        root = b.apply(Opcode.FMA, root, b.parameter(type), b.parameter(type));
        Value next = b.apply(Opcode.FMA, b.apply(Opcode.DIV, m, root), rate, shrunk);
        return b.output(next).output(m).output(v).build();
    }

    private static FusedLoop loop(Form form, Function<Form, Expression> expression) {
        FusedLoop known = LOOPS.get(form);
        return known != null ? known : LOOPS.computeIfAbsent(form, f -> FusedLoop.of(expression.apply(f)));
    }

    private static void run(Launch launch, Tensor... operands) {
        Tensor target = operands[operands.length - 1];
        boolean flat = DenseLayout.isDense(target);
        for (int k = 0; k < operands.length; k++) {
            launch.operand(k, operands[k].address());
            flat &= DenseLayout.isSame(operands[k], target);
        }
        if (flat) {
            launch.runFlat(target.count());
            return;
        }
        launch.shape(target.shape().dims());
        for (int k = 0; k < operands.length; k++) {
            launch.operand(k, operands[k].address(), operands[k].shape().dims(), operands[k].strides());
        }
        launch.runStrided();
    }
}
