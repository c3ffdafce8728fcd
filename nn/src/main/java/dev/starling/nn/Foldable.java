package dev.starling.nn;

import org.jspecify.annotations.Nullable;

/** A layer that, in inference, multiplies each channel by a constant and adds one, as batch normalisation does. */
public interface Foldable extends Layer {
    /**
     * Returns one layer with weights of its own that computes in inference what {@code before} and then this layer
     * compute, or {@code null} if there is none.
     */
    @Nullable Layer foldedInto(Layer before);
}
