/** Optimisers, wrappers that clip gradients or average weights, and schedules of the learning rate. */
package dev.starling.nn.optim;
