/** Starts the processes of a run on this host, watches them, and starts failed ones again. */
package dev.starling.distributed.launch;
