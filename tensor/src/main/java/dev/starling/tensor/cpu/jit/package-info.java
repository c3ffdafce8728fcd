/**
 * Loops that are generated from the formulas of operations: as machine code ({@code Native…}) on Linux with x86-64, and
 * otherwise as bytecode, with and without the Vector API. All give the same bits.
 */
package dev.starling.tensor.cpu.jit;
