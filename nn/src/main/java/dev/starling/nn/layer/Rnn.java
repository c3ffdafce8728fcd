package dev.starling.nn.layer;

import dev.starling.tensor.op.Recurrence.Cell;

/** Creates plain recurrent networks with tanh or rectifiers. (Elman, 1990; Le et al., 2015) */
public final class Rnn {
    private Rnn() {
    }

    /** Returns a builder of a network with tanh, {@code [N, T, in]} to {@code [N, T, units]}; see {@link Recurrent}. */
    public static Recurrent.Builder of(long in, long units) {
        return new Recurrent.Builder(Cell.TANH, in, units);
    }

    /** Returns a builder of a network with rectifiers. */
    public static Recurrent.Builder rectified(long in, long units) {
        return new Recurrent.Builder(Cell.RELU, in, units);
    }
}
