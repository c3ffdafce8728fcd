/** Products of f32 matrices in machine code of our own, behind raw addresses. */
package dev.starling.tensor.cpu.gemm;
