/**
 * The interface of backends, which other modules may implement: a {@link dev.starling.tensor.spi.BackendProvider} is
 * found as a service, a {@link dev.starling.tensor.spi.Backend} carries out operations. A program that computes with
 * tensors does not need this package.
 */
package dev.starling.tensor.spi;
