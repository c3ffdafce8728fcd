/** How a strategy continues from one membership epoch to the next. */
package dev.starling.distributed.epoch;
