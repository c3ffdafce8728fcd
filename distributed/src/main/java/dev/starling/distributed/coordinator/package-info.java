/** What gathers processes: the coordinator, a thread that drives it, and the ways to find it. */
package dev.starling.distributed.coordinator;
