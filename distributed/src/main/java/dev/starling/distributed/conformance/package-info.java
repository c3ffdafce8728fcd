/** Tests strategies, also those of users, under simulated faults. */
package dev.starling.distributed.conformance;
