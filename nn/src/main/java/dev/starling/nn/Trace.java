package dev.starling.nn;

import dev.starling.tensor.Tensor;

/** Sees layers being called, while bound: what {@link Summary} is made of. */
interface Trace {
    ScopedValue<Trace> CURRENT = ScopedValue.newInstance();

    /** Computes {@code layer.forward(x)} and takes note of it. */
    Tensor through(Layer layer, Tensor x);
}
