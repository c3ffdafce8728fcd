package dev.starling.nn.layer;

import dev.starling.tensor.op.Recurrence.Cell;

/** Creates recurrent networks of long short-term memory. (Hochreiter and Schmidhuber, 1997) */
public final class Lstm {
    private Lstm() {
    }

    /** Returns a builder of a network {@code [N, T, in]} to {@code [N, T, units]}; see {@link Recurrent}. */
    public static Recurrent.Builder of(long in, long units) {
        return new Recurrent.Builder(Cell.LSTM, in, units);
    }
}
