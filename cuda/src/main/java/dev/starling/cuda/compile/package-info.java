/** Compiles kernel sources to programs of the device and caches them on disk. */
package dev.starling.cuda.compile;
