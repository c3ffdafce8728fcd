/** The state that a rank which joins receives from the others, and the settings in which all must agree. */
package dev.starling.distributed.state;
