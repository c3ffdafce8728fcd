/** Loops that are generated as bytecode from the formulas of operations, with and without the Vector API. */
package dev.starling.tensor.cpu.jit;
