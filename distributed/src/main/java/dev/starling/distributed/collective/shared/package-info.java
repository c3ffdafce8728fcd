/** Collectives between ranks that map each other's memory. */
package dev.starling.distributed.collective.shared;
