/** Sums, products, minima and maxima of several arrays in one pass. */
package dev.starling.distributed.collective.reduce;
