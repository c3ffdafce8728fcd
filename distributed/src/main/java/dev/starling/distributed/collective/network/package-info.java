/** Collectives between ranks that do not map each other's memory. */
package dev.starling.distributed.collective.network;
