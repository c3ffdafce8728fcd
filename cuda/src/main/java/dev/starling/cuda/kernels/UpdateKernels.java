package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;

/**
 * Kernels of {@link Update} operations: one pass reads parameter, gradient and state and writes parameter and state.
 * Rates and decays are arguments, so that a schedule needs no new kernel.
 */
public final class UpdateKernels {
    private static final Tensor[] DONE = {};
    private static final int VECTOR_BYTES = 16;

    private final Launcher launcher;

    private record UpdateKernel(String rule, boolean vectors, DType type) implements Kernel {
        @Override
        public KernelSource source() {
            return KernelSource.of("update", rule + (vectors ? "_vectors" : "_scalars"), "T", Types.of(type),
                    "C", Types.wide(type), "WIDTH", Integer.toString(VECTOR_BYTES / type.bytes()));
        }
    }

    /** A rule's parameters: reals, and at the end a flag or none. */
    private record Rule(String name, double[] parameters, Boolean flag) {
        Rule(String name, double... parameters) {
            this(name, parameters, null);
        }
    }

    /** Makes the family's kernels for a device. */
    public UpdateKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    /** Carries out the operation and returns nothing. */
    public Tensor[] run(Update op, Tensor[] inputs) {
        switch (op) {
            case Update.Assign _ -> assign(inputs[0], inputs[1]);
            case Update.Blend(double decay, double weight) -> step(new Rule("blend", decay, weight), inputs);
            case Update.Sgd sgd -> step(rule(sgd, inputs.length == 3), inputs);
            case Update.Adam adam -> step(rule(adam), inputs);
        }
        return DONE;
    }

    /** Copies by way of a third place where target and source may overlap. */
    private void assign(Tensor target, Tensor source) {
        if (!target.sharesMemoryWith(source)) {
            launcher.assign(target, source);
            return;
        }
        Tensor between = Tensor.allocate(source.spec());
        launcher.assign(between, source);
        launcher.assign(target, between);
        between.close();
    }

    private static Rule rule(Update.Sgd op, boolean momentum) {
        return momentum ? new Rule("momentum",
                new double[] {op.rate(), op.momentum(), 1 - op.dampening(), op.weightDecay()}, op.nesterov())
                : new Rule("descent", op.rate(), op.weightDecay());
    }

    private static Rule rule(Update.Adam op) {
        return new Rule("adam", op.rate(), op.beta1(), 1 - op.beta1(), op.beta2(), 1 - op.beta2(),
                1 - Math.pow(op.beta1(), op.step()), 1 - Math.pow(op.beta2(), op.step()), op.epsilon(),
                op.decoupled() ? 0 : op.weightDecay(), op.decoupled() ? op.rate() * op.weightDecay() : 0);
    }

    private void step(Rule rule, Tensor[] operands) {
        Layout.of(operands[0].shape(), operands).inPieces(Layout.MAX_COUNT,
                (layout, offsets) -> launch(rule, operands, layout, offsets));
    }

    private void launch(Rule rule, Tensor[] operands, Layout layout, long[] offsets) {
        DType type = operands[0].dtype();
        int width = VECTOR_BYTES / type.bytes();
        boolean vectors = layout.allowsVectors(width, operands, offsets);
        for (int k = 0; k < operands.length; k++) {
            vectors &= layout.stride(k, layout.rank() - 1) == 1;
        }
        Launch launch = launcher.launch(new UpdateKernel(rule.name, vectors, type));
        for (int k = 0; k < operands.length; k++) {
            launch.i64(operands[k].address() + offsets[k] * type.bytes());
        }
        launch.layout(layout, operands.length);
        for (double parameter : rule.parameters) {
            if (type == DType.F64) {
                launch.f64(parameter);
            } else {
                launch.f32((float) parameter);
            }
        }
        if (rule.flag != null) {
            launch.i32(rule.flag ? 1 : 0);
        }
        launch.threads(vectors ? (layout.count() + width - 1) / width : layout.count());
    }
}
