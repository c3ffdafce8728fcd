/** Kernels, a class for each family of operations, and what launches them. */
package dev.starling.cuda.kernels;
