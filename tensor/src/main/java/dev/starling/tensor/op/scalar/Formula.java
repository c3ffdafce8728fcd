package dev.starling.tensor.op.scalar;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * What an operation computes for one element: one or more outputs as {@link Scalar} terms, in an order in which each
 * term follows those that it reads. A formula names no type. It is computed in the type of the operation's last
 * operand, floats of 16 bits in f32; each output is then converted, with one rounding, to the type of its tensor.
 * Immutable; formulas of the same terms are equal, and backends keep one kernel for equal formulas.
 *
 * <p>Values are numbered: first the operands, then the parameters, the constants and the results of the steps.
 */
public final class Formula {
    private static final double[] NONE = {};
    private static final int MAX_PARAMETERS = 2;
    /** The formulas of single opcodes, by opcode and number of parameters. */
    private static final Formula[][] SINGLE = new Formula[Opcode.values().length][MAX_PARAMETERS + 1];

    private final int operands;
    private final int parameters;
    private final List<Double> constants;
    private final List<Step> steps;
    private final List<Integer> outputs;
    private final int hash;

    static {
        for (Opcode opcode : Opcode.values()) {
            for (int n = 0; n <= MAX_PARAMETERS && n < opcode.arity() && opcode != Opcode.CAST; n++) {
                SINGLE[opcode.ordinal()][n] = single(opcode, n);
            }
        }
    }

    private Formula(Numbering numbering, Scalar... terms) {
        operands = numbering.operands;
        parameters = numbering.parameters;
        constants = List.copyOf(numbering.constants);
        steps = List.copyOf(numbering.steps);
        List<Integer> numbers = new ArrayList<>();
        for (Scalar term : terms) {
            numbers.add(numbering.number(term));
        }
        outputs = List.copyOf(numbers);
        hash = Arrays.hashCode(new Object[] {operands, parameters, constants, steps, outputs});
    }

    /**
     * The application of a primitive function. Operands that the function does not have repeat the first.
     *
     * @param opcode the function
     * @param a number of the first operand's value
     * @param b number of the second operand's value
     * @param c number of the third operand's value
     */
    public record Step(Opcode opcode, int a, int b, int c) { }

    /**
     * A meaning of formulas: instructions, source text or numbers.
     *
     * @param <V> what a term becomes
     */
    public interface Interpretation<V> {
        /** Returns the element of an operand. */
        V operand(int number);

        /** Returns a parameter. */
        V parameter(int number);

        /** Returns a constant. */
        V constant(double value);

        /** Applies a primitive function. */
        V apply(Opcode opcode, List<V> of);
    }

    /** Returns the formula with the given outputs. */
    public static Formula of(Scalar... outputs) {
        Numbering numbering = new Numbering();
        for (Scalar output : outputs) {
            numbering.count(output);
        }
        for (Scalar output : outputs) {
            numbering.collect(output);
        }
        return new Formula(numbering, outputs);
    }

    /** Returns the formula that applies one primitive function to the operands. */
    public static Formula of(Opcode opcode) {
        return of(opcode, 0);
    }

    /** Returns the formula of one primitive function whose last {@code parameters} operands are parameters. */
    public static Formula of(Opcode opcode, int parameters) {
        Formula[] known = SINGLE[opcode.ordinal()];
        if (parameters < 0 || parameters > MAX_PARAMETERS || known[parameters] == null) {
            throw TensorException.argument("formula", opcode + " cannot have " + parameters + " parameters",
                    "at least one operand must remain; write other formulas as terms");
        }
        return known[parameters];
    }

    private static Formula single(Opcode opcode, int parameters) {
        Scalar[] terms = new Scalar[opcode.arity()];
        int operands = terms.length - parameters;
        for (int i = 0; i < terms.length; i++) {
            terms[i] = i < operands ? Scalar.operand(i) : Scalar.parameter(i - operands);
        }
        return of(Scalar.of(opcode, terms));
    }

    /** Returns no parameters: the values for a formula without them. */
    public static double[] noParameters() {
        return NONE;
    }

    /** Returns a parameter's value for an integer type: truncated towards 0, and the nearest number in its range. */
    public static long integer(DType type, double parameter) {
        return switch (type) {
            case I32 -> (int) parameter;
            case I8 -> Math.clamp((long) parameter, Byte.MIN_VALUE, Byte.MAX_VALUE);
            case U8 -> Math.clamp((long) parameter, 0, 255);
            case I64, BOOL, F32, F64, BF16, F16 -> (long) parameter;
        };
    }

    /** Returns the number of operands, up to the last one that the formula reads. */
    public int operands() {
        return operands;
    }

    /** Returns the number of parameters. */
    public int parameters() {
        return parameters;
    }

    /** Returns the constants. */
    public List<Double> constants() {
        return constants;
    }

    /** Returns the steps. */
    public List<Step> steps() {
        return steps;
    }

    /** Returns the numbers of the outputs' values. */
    public List<Integer> outputs() {
        return outputs;
    }

    /** Returns the outputs in an interpretation, which is asked for each term once, in the order of the values. */
    public <V> List<V> interpret(Interpretation<V> meaning) {
        List<V> values = new ArrayList<>();
        for (int i = 0; i < operands; i++) {
            values.add(meaning.operand(i));
        }
        for (int i = 0; i < parameters; i++) {
            values.add(meaning.parameter(i));
        }
        for (double constant : constants) {
            values.add(meaning.constant(constant));
        }
        for (Step step : steps) {
            List<V> of = List.of(values.get(step.a), values.get(step.b), values.get(step.c));
            values.add(meaning.apply(step.opcode, of.subList(0, step.opcode.arity())));
        }
        List<V> results = new ArrayList<>();
        for (int output : outputs) {
            results.add(values.get(output));
        }
        return Collections.unmodifiableList(results);
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return this == other || other instanceof Formula f && hash == f.hash && operands == f.operands
                && parameters == f.parameters && constants.equals(f.constants) && steps.equals(f.steps)
                && outputs.equals(f.outputs);
    }

    @Override
    public int hashCode() {
        return hash;
    }

    @Override
    public String toString() {
        return steps + " -> " + outputs;
    }

    /** Numbers the terms of a formula that is being made. */
    private static final class Numbering {
        private final Map<Scalar, Integer> numbers = new HashMap<>();
        private final List<Double> constants = new ArrayList<>();
        private final List<Step> steps = new ArrayList<>();
        private int operands;
        private int parameters;

        /** Counts the leaves, whose numbers precede those of all steps. */
        void count(Scalar term) {
            switch (term) {
                case Scalar.Operand(int number) -> operands = Math.max(operands, number + 1);
                case Scalar.Parameter(int number) -> parameters = Math.max(parameters, number + 1);
                case Scalar.Constant(double value) -> {
                    if (!constants.contains(value)) {
                        constants.add(value);
                    }
                }
                case Scalar.Apply(Opcode _, List<Scalar> of) -> {
                    for (Scalar operand : of) {
                        count(operand);
                    }
                }
            }
        }

        /** Numbers a term and all that it reads. */
        void collect(Scalar term) {
            if (term instanceof Scalar.Apply(Opcode opcode, List<Scalar> of) && !numbers.containsKey(term)) {
                for (Scalar operand : of) {
                    collect(operand);
                }
                int a = number(of.getFirst());
                steps.add(new Step(opcode, a, of.size() > 1 ? number(of.get(1)) : a,
                        of.size() > 2 ? number(of.get(2)) : a));
                numbers.put(term, operands + parameters + constants.size() + steps.size() - 1);
            }
        }

        int number(Scalar term) {
            return switch (term) {
                case Scalar.Operand(int number) -> number;
                case Scalar.Parameter(int number) -> operands + number;
                case Scalar.Constant(double value) -> operands + parameters + constants.indexOf(value);
                case Scalar.Apply _ -> Objects.requireNonNull(numbers.get(term));
            };
        }
    }
}
