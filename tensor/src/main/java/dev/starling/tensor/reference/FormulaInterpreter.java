package dev.starling.tensor.reference;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.Elementwise;
import dev.starling.tensor.op.scalar.Formula;
import java.util.List;

/**
 * Computes a {@link Formula} for one element after the other: in double precision for floats, and for integers in 64
 * bits, wrapped around to the type after each step. A bool is 0 or 1.
 */
final class FormulaInterpreter {
    private final Formula.Step[] steps;
    private final int[] outputs;
    private final int operands;
    /** Number of the first step's value. */
    private final int first;
    private final DType type;
    private final double[] reals;
    private final long[] integers;
    /** For each value whether it is a bool; only needed for integers. */
    private final boolean[] bools;

    /** Prepares a formula whose last operand has a type. */
    FormulaInterpreter(Formula formula, DType type, double... parameters) {
        this.type = type;
        steps = formula.steps().toArray(Formula.Step[]::new);
        outputs = formula.outputs().stream().mapToInt(i -> i).toArray();
        operands = formula.operands();
        List<Double> constants = formula.constants();
        first = operands + formula.parameters() + constants.size();
        reals = new double[first + steps.length];
        integers = new long[reals.length];
        bools = new boolean[reals.length];
        for (int i = operands; i < first; i++) {
            int parameter = i - operands;
            reals[i] = parameter < formula.parameters() ? parameters[parameter]
                    : constants.get(parameter - formula.parameters());
            integers[i] = Formula.integer(type, reals[i]);
        }
        for (int i = 0; i < first; i++) {
            bools[i] = type == DType.BOOL;
        }
        for (int i = 0; i < steps.length; i++) {
            int last = switch (steps[i].opcode().arity()) {
                case 1 -> steps[i].a();
                case 2 -> steps[i].b();
                default -> steps[i].c();
            };
            bools[first + i] = steps[i].opcode().isPredicate() || bools[last];
        }
    }

    /** Returns the first output of an operation for one element. */
    static double value(Elementwise op, double... operands) {
        FormulaInterpreter interpreter = new FormulaInterpreter(op.formula(), DType.F64, op.parameters());
        System.arraycopy(operands, 0, interpreter.reals, 0, op.formula().operands());
        interpreter.run();
        return interpreter.real(0);
    }

    boolean floating() {
        return type.isFloating();
    }

    /** Reads element {@code i} of the operands. */
    void read(Elements[] in, long i) {
        for (int k = 0; k < operands; k++) {
            if (floating()) {
                reals[k] = in[k].get(i);
            } else {
                integers[k] = in[k].getLong(i);
            }
        }
    }

    /** Computes all outputs. */
    void run() {
        for (int i = 0; i < steps.length; i++) {
            Formula.Step s = steps[i];
            if (floating()) {
                reals[first + i] = ScalarFunctions.of(s.opcode(), reals[s.a()], reals[s.b()], reals[s.c()]);
            } else {
                long value = IntegerFunctions.of(s.opcode(), integers[s.a()], integers[s.b()], integers[s.c()],
                        bools[s.a()]);
                integers[first + i] = bools[first + i] ? value != 0 ? 1 : 0 : wrapped(value);
            }
        }
    }

    private long wrapped(long value) {
        return switch (type) {
            case I32 -> (int) value;
            case I8 -> (byte) value;
            case U8 -> value & 0xff;
            case I64, BOOL, F32, F64, BF16, F16 -> value;
        };
    }

    double real(int output) {
        return reals[outputs[output]];
    }

    /** Writes an output to element {@code i}, converting it as a cast does. */
    void write(int output, Elements y, long i) {
        if (floating()) {
            y.set(i, real(output));
        } else {
            y.setLong(i, integers[outputs[output]]);
        }
    }
}
