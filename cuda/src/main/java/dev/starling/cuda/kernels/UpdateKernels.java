package dev.starling.cuda.kernels;

import dev.starling.cuda.compile.KernelSource;
import dev.starling.tensor.DType;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.op.scalar.Formula;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/**
 * {@link Update} operations: one pass reads parameter, gradient and state and writes parameter and state, of many
 * parameters in one launch. Rates and decays are arguments, so a schedule needs no new kernels. The table of tensors is
 * an argument too, so nothing has to be copied to the device first.
 */
public final class UpdateKernels {
    private static final Tensor[] DONE = {};
    private static final int VECTOR_BYTES = 16;
    private static final int THREADS = 256;
    /** Vectors for each thread of a block. */
    private static final int VECTORS = 2;
    /** The sources of rules, by type. */
    private static final ConcurrentHashMap<Formula, String[]> SOURCES = new ConcurrentHashMap<>();

    private final Launcher launcher;

    private record UpdateKernel(String rule, int operands, int changed, int parameters, DType type, int entries)
            implements Kernel {
        @Override
        public KernelSource source() {
            int width = VECTOR_BYTES / type.bytes();
            return KernelSource.of("update", "update", "T", Types.of(type), "C", Types.wide(type), "RULE", rule,
                    "PARAMETERS", Math.max(1, parameters), "CHANGED", changed, "OPERANDS", operands, "WIDTH", width,
                    "CHUNK", chunk(type), "ENTRIES", entries);
        }
    }

    /** What equal updates have in common: the source of their rule, and its parameters. */
    private record Rule(String source, int changed, double[] parameters) {
        static Rule of(Update op, int operands, DType type) {
            Formula formula = op.formula();
            String[] sources = SOURCES.computeIfAbsent(formula, f -> new String[DType.values().length]);
            if (sources[type.ordinal()] == null) {
                sources[type.ordinal()] = source(op, formula, operands, type);
            }
            int changed = 0;
            for (int k = 0; k < operands; k++) {
                changed |= op.changes(k) ? 1 << k : 0;
            }
            return new Rule(sources[type.ordinal()], changed, op.parameters());
        }

        private static String source(Update op, Formula formula, int operands, DType type) {
            List<String> names = IntStream.range(0, operands).mapToObj(k -> "x[" + k + "]").toList();
            FormulaSource source = new FormulaSource(formula, names, 0, type, "t");
            Iterator<String> results = formula.interpret(source).iterator();
            StringBuilder text = new StringBuilder(source.statements());
            for (int k = 0; k < operands; k++) {
                if (op.changes(k)) {
                    text.append(names.get(k)).append(" = ").append(results.next()).append("; ");
                }
            }
            return text.toString();
        }
    }

    /** Makes the family's kernels for a device. */
    public UpdateKernels(Launcher launcher) {
        this.launcher = launcher;
    }

    private static int chunk(DType type) {
        return THREADS * VECTORS * VECTOR_BYTES / type.bytes();
    }

    /** Runs the operation; it has no results. */
    public Tensor[] run(Update op, Tensor[] inputs) {
        if (op instanceof Update.Assign && !inputs[0].sharesMemoryWith(inputs[1])) {
            launcher.assign(inputs[0], inputs[1]);
        } else {
            run(new Update[] {op}, new Tensor[][] {inputs}, null);
        }
        return DONE;
    }

    /**
     * Runs operations, equal ones in one launch, unless the guard or an earlier bad index of this thread prevents it.
     *
     * @param guard one floating-point number, which must be finite, or {@code null}
     */
    public void run(Update[] ops, Tensor[][] operands, @Nullable Tensor guard) {
        // All memory is allocated and all kernels are loaded before anything is changed.
        Tensor[][] flat = new Tensor[ops.length][];
        try {
            for (int i = 0; i < ops.length; i++) {
                flat[i] = flat(ops[i], operands[i]);
            }
            Launch.runTogether(() -> change(ops, operands, flat, guard));
        } finally {
            for (int i = 0; i < ops.length; i++) {
                close(operands[i], flat[i]);
            }
        }
    }

    private void change(Update[] ops, Tensor[][] operands, Tensor[][] flat, @Nullable Tensor guard) {
        boolean[] done = new boolean[ops.length];
        for (int i = 0; i < ops.length; i++) {
            if (!done[i]) {
                runEqual(i, ops, flat, done, guard);
            }
        }
        for (int i = 0; i < ops.length; i++) {
            copyBack(ops[i], operands[i], flat[i]);
        }
    }

    private void runEqual(int first, Update[] ops, Tensor[][] operands, boolean[] done, @Nullable Tensor guard) {
        DType type = unit(ops[first], operands[first]);
        int arity = operands[first].length;
        Rule rule = Rule.of(ops[first], arity, type);
        UpdateTable table = UpdateTable.of(arity, type.bytes(), chunk(type));
        for (int i = first; i < ops.length; i++) {
            Tensor[] of = operands[i];
            if (done[i] || of.length != arity || !ops[i].equals(ops[first]) || unit(ops[i], of) != type) {
                continue;
            }
            done[i] = true;
            long count = of[0].spec().bytes() / type.bytes();
            for (long from = 0; from < count; from += Layout.MAX_COUNT) {
                if (table.isFull()) {
                    launch(rule, type, table, guard);
                }
                table.add(of, from, (int) Math.min(Layout.MAX_COUNT, count - from));
            }
        }
        launch(rule, type, table, guard);
    }

    /** Returns the type in which memory is processed: assignments copy words, whatever their type. */
    private static DType unit(Update op, Tensor[] flat) {
        boolean words = op instanceof Update.Assign && flat[0].spec().bytes() % Integer.BYTES == 0
                && (flat[0].address() | flat[1].address()) % Integer.BYTES == 0;
        return words ? DType.I32 : flat[0].dtype();
    }

    private void launch(Rule rule, DType type, UpdateTable table, @Nullable Tensor guard) {
        if (table.blocks() > 0) {
            Launch launch = launcher.launch(new UpdateKernel(rule.source, table.operands(), rule.changed,
                    rule.parameters.length, type, table.capacity()));
            table.appendTo(launch);
            launch.i64(guard == null ? 0 : guard.address() + guard.dtype().bytes() - 2).i64(launcher.faults().flag())
                    .i32(guard == null ? 0 : exponent(guard.dtype())).align(8).parameters(type, rule.parameters)
                    .blocks(table.blocks(), THREADS);
        }
        table.clear();
    }

    /** Returns the mask of the exponent in a number's highest 16 bits. */
    private static int exponent(DType type) {
        return switch (type) {
            case F32, BF16 -> 0x7f80;
            case F64 -> 0x7ff0;
            case F16 -> 0x7c00;
            case I64, I32, I8, U8, BOOL -> throw new AssertionError("a guard cannot be " + type);
        };
    }

    /** Returns operands with one dense order of elements: themselves, or copies of those that have another. */
    private Tensor[] flat(Update op, Tensor[] operands) {
        Tensor target = operands[0];
        boolean dense = target.isContiguous() || Layout.of(target.shape(), target).isDense(0);
        long[] strides = dense ? target.sharedStrides() : target.shape().sharedStrides();
        Tensor[] flat = operands.clone();
        for (int k = 0; k < operands.length; k++) {
            Tensor x = operands[k];
            boolean overlaps = k > 0 && op instanceof Update.Assign && x.sharesMemoryWith(target);
            if (!dense || overlaps || x.dtype() != target.dtype() || !isLike(target, x)) {
                flat[k] = Storage.allocate(target.spec(), strides);
                launcher.assign(flat[k], x);
            }
        }
        return flat;
    }

    private static boolean isLike(Tensor target, Tensor x) {
        if (target.isContiguous() && x.isContiguous() && x.shape().equals(target.shape())) {
            return true;
        }
        Layout layout = Layout.of(target.shape(), target, x);
        return layout.isDense(0) && layout.isDense(1);
    }

    private void copyBack(Update op, Tensor[] operands, Tensor[] flat) {
        for (int k = 0; k < flat.length; k++) {
            if (op.changes(k) && flat[k] != operands[k]) {
                launcher.assign(operands[k], flat[k]);
            }
        }
    }

    private static void close(Tensor[] operands, Tensor[] flat) {
        for (int k = 0; flat != null && k < flat.length; k++) {
            if (flat[k] != operands[k]) {
                flat[k].close();
            }
        }
    }
}
