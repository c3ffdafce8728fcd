/** Layers by the names of {@code torch.nn}. {@code docs/nn.md} lists them. */
package dev.starling.nn.layer;
