/** Machine code of x86-64 processors: an assembler, memory for what it makes, and what the processor can do. */
package dev.starling.tensor.cpu.x86;
