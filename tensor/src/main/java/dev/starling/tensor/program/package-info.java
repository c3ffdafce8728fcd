/**
 * Captured programs: the operations of a piece of work, recorded once and replayed without the code that issued them.
 */
package dev.starling.tensor.program;
