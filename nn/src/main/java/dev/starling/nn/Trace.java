package dev.starling.nn;

import dev.starling.tensor.Tensor;

/** Observes calls of layers while bound. {@link Summary} uses it. */
interface Trace {
    ScopedValue<Trace> CURRENT = ScopedValue.newInstance();

    /** Computes {@code layer.forward(x)} and records the call. */
    Tensor call(Layer layer, Tensor x);
}
