/**
 * What operations compute for one element. A {@link dev.starling.tensor.op.scalar.Formula} applies primitive functions
 * ({@link dev.starling.tensor.op.scalar.Opcode}) to operands and parameters; the record of an operation owns it.
 * Backends know the primitives and no operation: the reference interprets formulas, the CPU compiles them, a GPU's
 * backend prints them as source code.
 */
package dev.starling.tensor.op.scalar;
