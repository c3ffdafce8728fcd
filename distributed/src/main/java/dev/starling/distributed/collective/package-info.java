/** The engine of one epoch's collectives: which collective is next, and which algorithm carries it out. */
package dev.starling.distributed.collective;
