package dev.starling.nn.layer;

import dev.starling.tensor.op.Recurrence.Cell;

/** Creates recurrent networks of gated recurrent units. (Cho et al., 2014) */
public final class Gru {
    private Gru() {
    }

    /** Returns a builder of a network {@code [N, T, in]} to {@code [N, T, units]}; see {@link Recurrent}. */
    public static Recurrent.Builder of(long in, long units) {
        return new Recurrent.Builder(Cell.GRU, in, units);
    }
}
