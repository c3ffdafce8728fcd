package dev.starling.nn.layer;

import dev.starling.tensor.op.Recurrence.Cell;

/** Makes plain recurrent networks, of tanh or of rectifiers. (Elman, 1990; Le et al., 2015) */
public final class Rnn {
    private Rnn() {
    }

    /** Begins a network of tanh, {@code [N, T, in]} to {@code [N, T, units]}; see {@link Recurrent}. */
    public static Recurrent.Builder of(long in, long units) {
        return new Recurrent.Builder(Cell.TANH, in, units);
    }

    /** Begins one of rectifiers. */
    public static Recurrent.Builder rectified(long in, long units) {
        return new Recurrent.Builder(Cell.RELU, in, units);
    }
}
