/** Data sets, and the loader that makes batches of them in the background. */
package dev.starling.nn.data;
