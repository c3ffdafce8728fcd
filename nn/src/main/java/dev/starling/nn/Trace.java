package dev.starling.nn;

import java.util.function.Supplier;

/** Observes calls of layers and models while bound. {@link Summary} uses it. */
interface Trace {
    ScopedValue<Trace> CURRENT = ScopedValue.newInstance();

    /** Calls {@code module} by {@code forward} and records the call. */
    <R> R call(Module module, Supplier<R> forward);
}
