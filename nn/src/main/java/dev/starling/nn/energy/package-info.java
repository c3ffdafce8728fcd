/**
 * Energy-based models: restricted Boltzmann machines, trained by contrastive divergence, and deep belief networks that
 * are stacked of them.
 */
package dev.starling.nn.energy;
