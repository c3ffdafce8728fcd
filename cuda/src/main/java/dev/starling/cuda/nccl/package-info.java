/** Sums over the GPUs of a machine by the vendor's library. */
package dev.starling.cuda.nccl;
