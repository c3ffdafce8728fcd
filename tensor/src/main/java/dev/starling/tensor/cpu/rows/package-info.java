/** Loops over rows for normalisation, softmax, pooling and attention. */
package dev.starling.tensor.cpu.rows;
