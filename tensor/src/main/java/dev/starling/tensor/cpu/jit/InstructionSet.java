package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import java.lang.classfile.TypeKind;
import java.util.function.IntConsumer;

/** Writes the bytecode of primitives. Operands and addresses are pushed by callbacks, results are left on the stack. */
sealed interface InstructionSet permits ScalarInstructions, VectorInstructions {
    /** How many elements an instruction computes. */
    int width();

    /** What holds a value of the lane. */
    TypeKind kind(Lane lane);

    /** Whether constants are worth a local variable outside of the loops. */
    boolean keepsConstants();

    void load(DType type, Runnable pushAddress);

    /** Loads one element for all of the loop. */
    void loadBroadcast(DType type, Runnable pushAddress);

    void store(DType type, Runnable pushAddress, Runnable pushValue);

    /** Converts the parameter on the stack, a long that holds the bits of a double or an integer. */
    void parameter(Lane lane);

    void constant(Lane lane, long bits);

    /** Any primitive but memory access, parameters and constants; {@code a} is the lane of the first operand. */
    void apply(Node node, Lane a, IntConsumer push);
}
