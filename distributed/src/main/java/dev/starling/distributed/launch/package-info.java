/** Starts the processes of a run on this host or on several, watches them, and starts lost ones again. */
package dev.starling.distributed.launch;
