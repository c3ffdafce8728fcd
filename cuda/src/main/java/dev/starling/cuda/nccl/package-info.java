/** Sums over the GPUs of a machine by the machine's library. */
package dev.starling.cuda.nccl;
