/**
 * What workers and servers share: their messages, the division of parameters among servers, and the members of a
 * synchronous run.
 */
package dev.starling.distributed.ps.wire;
