package dev.starling.nn.optim;

import dev.starling.nn.Module;

/** Creates {@link Adam} with decoupled weight decay. (Loshchilov and Hutter, 2017) */
public final class AdamW {
    private AdamW() {
    }

    /** Returns a builder as {@link Adam#over} does, with decoupled weight decay of 0.01. */
    public static Adam.Builder over(Module model) {
        return new Adam.Builder(model, true, 0.01);
    }
}
