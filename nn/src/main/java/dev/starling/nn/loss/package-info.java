/** What training minimises; {@link dev.starling.nn.loss.Loss} creates the losses. */
package dev.starling.nn.loss;
