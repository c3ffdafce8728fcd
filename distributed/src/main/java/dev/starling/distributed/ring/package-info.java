/** Synchronous training: gradients are summed over all ranks in each step, while the backward pass is running. */
package dev.starling.distributed.ring;
