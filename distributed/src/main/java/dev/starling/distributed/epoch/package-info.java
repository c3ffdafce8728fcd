/** How a strategy comes from one membership epoch to the next. */
package dev.starling.distributed.epoch;
