/**
 * The operations as records and constants, for code that carries them out or records them: backends, tapes, captured
 * programs. A program that computes with tensors calls the methods of {@link dev.starling.tensor.Tensor} and the
 * functions beside it, which use these. It needs of this package at most {@link dev.starling.tensor.op.Op} for a
 * {@link dev.starling.tensor.Recorder} of its own, and parameters such as {@link dev.starling.tensor.op.Epilogue}.
 */
package dev.starling.tensor.op;
