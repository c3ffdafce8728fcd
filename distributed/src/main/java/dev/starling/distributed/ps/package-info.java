/**
 * A parameter server: servers hold the weights and take the optimiser's steps, workers push gradients and get the new
 * weights back. A request flows through a ring of four stages: decode, apply, journal, reply. The server acknowledges
 * an update only when its journal record is on the disk, so no acknowledged update is lost with the process.
 */
package dev.starling.distributed.ps;
