/** What is behind a user's group: membership, connections, channels, the thread that works, and collectives. */
package dev.starling.distributed.group;
