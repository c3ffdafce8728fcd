/** The coordinator, which gathers the processes of a group, a thread that drives it, and the ways to find it. */
package dev.starling.distributed.coordinator;
