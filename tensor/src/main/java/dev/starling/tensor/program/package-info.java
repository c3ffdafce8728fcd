/** Pieces of work that were seen once and are done again without the code that described them. */
package dev.starling.tensor.program;
