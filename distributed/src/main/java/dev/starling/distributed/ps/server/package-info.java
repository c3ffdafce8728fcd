/**
 * A server: its sessions with workers, and the pipeline of four stages (decode, apply, journal, reply) that changes its
 * weights and rows.
 */
package dev.starling.distributed.ps.server;
