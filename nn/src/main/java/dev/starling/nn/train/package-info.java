/**
 * Training: {@link dev.starling.nn.train.Trainer} and its steps, metrics, and the interface of distributed
 * strategies.
 */
package dev.starling.nn.train;
