/** Serving: a predictor that answers requests of many threads, in batches, and can change its model meanwhile. */
package dev.starling.nn.serve;
