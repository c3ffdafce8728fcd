/** The backend for CPUs: a class of kernels for each family of operations. */
package dev.starling.tensor.cpu;
