/** Tests strategies, also those of users, under simulated faults. */
@NullMarked
package dev.starling.distributed.conformance;

import org.jspecify.annotations.NullMarked;
