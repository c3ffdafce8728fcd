/**
 * A parameter server: servers hold the weights and take the optimiser's steps, workers push gradients and get the new
 * weights back. A request flows through a ring: decode, apply, journal, reply; a worker hears of its update when the
 * journal is on the disk, so that no update that was acknowledged is lost with the process.
 */
package dev.starling.distributed.ps;
