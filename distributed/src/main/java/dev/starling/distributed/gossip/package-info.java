/** Training without synchronisation: each worker mixes its weights with those of a random peer. */
package dev.starling.distributed.gossip;
