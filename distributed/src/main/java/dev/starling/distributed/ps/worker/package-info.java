/** A worker: its links to all servers, and the memory for gradients, weights and rows that travel over them. */
package dev.starling.distributed.ps.worker;
