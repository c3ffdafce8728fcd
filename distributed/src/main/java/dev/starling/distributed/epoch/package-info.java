/** How a strategy comes from one membership epoch to the next. */
@NullMarked
package dev.starling.distributed.epoch;

import org.jspecify.annotations.NullMarked;
