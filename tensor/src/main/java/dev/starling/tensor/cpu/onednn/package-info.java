/**
 * oneDNN behind raw addresses: matrix products and convolutions for the CPU backend.
 *
 * <p>The package knows no tensor. A request ({@link dev.starling.tensor.cpu.onednn.Matmul},
 * {@link dev.starling.tensor.cpu.onednn.Convolution}) describes shapes and strides once, and runs on addresses that the
 * caller owns. It cuts the work into slices of rows, columns or batch and runs them on the pool of
 * {@link dev.starling.tensor.host.Parallel}; each slice is a single-threaded primitive, so that oneDNN's own threads,
 * which spin, are never started. Small products of f32 run on {@code cpu.gemm} instead.
 *
 * <p>Flow of a call: request → {@code Session} (borrowed; owns a stream, scratch memory and compiled primitives) →
 * {@code Executable} (looked up by {@code Key}, made on the first call with its shapes) → {@code Dnnl} (the C
 * functions, bound through the FFM API).
 */
package dev.starling.tensor.cpu.onednn;
