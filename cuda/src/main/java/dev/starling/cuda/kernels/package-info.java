/** Kernels, with a class for each family of operations, and their launches. */
package dev.starling.cuda.kernels;
