/**
 * Reverse-mode differentiation: a {@link dev.starling.autograd.Tape} records the operations that depend on watched
 * tensors and walks them backwards.
 */
package dev.starling.autograd;
