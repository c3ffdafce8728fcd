/** Optimisers, what surrounds them, and schedules of the learning rate. */
package dev.starling.nn.optim;
