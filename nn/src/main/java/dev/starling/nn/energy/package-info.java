/**
 * Energy-based models: restricted Boltzmann machines, trained by contrastive divergence, and deep belief networks,
 * which are stacks of them.
 */
package dev.starling.nn.energy;
