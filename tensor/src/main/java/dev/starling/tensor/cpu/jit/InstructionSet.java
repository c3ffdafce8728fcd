package dev.starling.tensor.cpu.jit;

import dev.starling.tensor.DType;
import dev.starling.tensor.cpu.jit.LoopBody.Node;
import java.lang.classfile.TypeKind;
import java.util.function.IntConsumer;

/** Writes the bytecode of primitives. Callbacks push operands and addresses; results are left on the stack. */
sealed interface InstructionSet permits ScalarInstructions, VectorInstructions {
    /** Returns the number of elements that an instruction computes. */
    int width();

    /** Returns the JVM type that holds a value of the lane. */
    TypeKind kind(Lane lane);

    /** Returns whether constants justify a local variable outside of the loops. */
    boolean keepsConstants();

    void load(DType type, Runnable pushAddress);

    /** Loads one element that serves the whole loop. */
    void loadBroadcast(DType type, Runnable pushAddress);

    void store(DType type, Runnable pushAddress, Runnable pushValue);

    /** Converts the parameter on the stack, a long that holds the bits of a double or an integer. */
    void parameter(Lane lane);

    void constant(Lane lane, long bits);

    /**
     * Writes any primitive except memory access, parameters and constants; {@code a} is the lane of the first operand.
     */
    void apply(Node node, Lane a, IntConsumer push);
}
