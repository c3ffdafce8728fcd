package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.op.scalar.Opcode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * The computation of a loop for each element: inputs and parameters, instructions in single assignment, outputs. Inputs
 * are read from memory. Parameters are scalars passed with each call, so that a new learning rate needs no new kernel.
 * Constants are part of the kernel. Immutable; expressions of the same instructions are equal.
 */
public final class Expression {
    private final List<DType> inputs;
    private final List<DType> parameters;
    private final List<Instruction> instructions;
    private final List<Value> outputs;
    /** What the builder was told: equal for equal expressions. */
    private final List<Object> code;
    private final int hash;

    private Expression(Builder builder) {
        inputs = List.copyOf(builder.inputs);
        parameters = List.copyOf(builder.parameters);
        instructions = List.copyOf(builder.instructions);
        outputs = List.copyOf(builder.outputs);
        code = List.copyOf(builder.code);
        hash = code.hashCode();
    }

    /** Returns the expression that converts from one type to another. */
    public static Expression cast(DType from, DType to) {
        Builder builder = new Builder();
        return builder.output(builder.cast(builder.input(from), to)).build();
    }

    public List<DType> inputs() {
        return inputs;
    }

    public List<DType> parameters() {
        return parameters;
    }

    public List<Value> outputs() {
        return outputs;
    }

    List<Instruction> instructions() {
        return instructions;
    }

    /** Returns the type of operand {@code k}: inputs come first, then outputs. */
    DType operand(int k) {
        return k < inputs.size() ? inputs.get(k) : outputs.get(k - inputs.size()).type();
    }

    int operands() {
        return inputs.size() + outputs.size();
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return this == other || other instanceof Expression e && hash == e.hash && code.equals(e.code);
    }

    @Override
    public int hashCode() {
        return hash;
    }

    /** The result of an instruction: its position in the list of instructions, and its type. */
    public record Value(int index, DType type) { }

    /** One instruction; it defines the value with its position in the list. */
    sealed interface Instruction {
        record Input(int operand) implements Instruction { }

        record Parameter(int number) implements Instruction { }

        /** A constant, given by its bits; for floating types these are the bits of a double. */
        record Constant(long bits) implements Instruction { }

        record Apply(Opcode opcode, List<Value> operands) implements Instruction { }
    }

    /** Builds an expression instruction by instruction. */
    public static final class Builder {
        private final List<DType> inputs = new ArrayList<>();
        private final List<DType> parameters = new ArrayList<>();
        private final List<Instruction> instructions = new ArrayList<>();
        private final List<Value> outputs = new ArrayList<>();
        private final List<Object> code = new ArrayList<>();

        /** Adds an input: elements of {@code type} in memory. */
        public Value input(DType type) {
            inputs.add(type);
            note("input", type);
            return define(new Instruction.Input(inputs.size() - 1), type);
        }

        /** Adds a parameter: a scalar passed with each call. */
        public Value parameter(DType type) {
            parameters.add(type);
            note("parameter", type);
            return define(new Instruction.Parameter(parameters.size() - 1), type);
        }

        /** Adds a constant, rounded to {@code type}. */
        public Value constant(DType type, double value) {
            long bits = type.isFloating() ? Double.doubleToRawLongBits(value) : (long) value;
            note("constant", type, bits);
            return define(new Instruction.Constant(bits), type);
        }

        /** Converts a value; returns the value itself if it already has the type. */
        public Value cast(Value value, DType type) {
            if (value.type() == type) {
                return value;
            }
            note(Opcode.CAST, type, value.index(), value.type());
            return define(new Instruction.Apply(Opcode.CAST, List.of(value)), type);
        }

        /**
         * Applies an opcode other than {@link Opcode#CAST}.
         *
         * @throws IllegalArgumentException if the number or the types of the operands do not fit
         */
        public Value apply(Opcode opcode, Value... operands) {
            int first = opcode == Opcode.WHERE ? 1 : 0;
            boolean fits = operands.length == opcode.arity() && opcode != Opcode.CAST;
            for (int i = 0; fits && i < operands.length; i++) {
                fits = operands[i].type() == (i < first ? DType.BOOL : operands[first].type());
            }
            if (!fits) {
                throw new IllegalArgumentException(opcode + " takes " + opcode.arity() + " operands of a type, got "
                        + Arrays.toString(operands));
            }
            DType type = opcode.isPredicate() ? DType.BOOL : operands[first].type();
            note(opcode);
            for (Value operand : operands) {
                note(operand.index(), operand.type());
            }
            return define(new Instruction.Apply(opcode, List.of(operands)), type);
        }

        /** Adds an output. */
        public Builder output(Value value) {
            outputs.add(value);
            note("output", value.index(), value.type());
            return this;
        }

        public Expression build() {
            return new Expression(this);
        }

        private void note(Object... parts) {
            Collections.addAll(code, parts);
        }

        private Value define(Instruction instruction, DType type) {
            instructions.add(instruction);
            return new Value(instructions.size() - 1, type);
        }
    }
}
