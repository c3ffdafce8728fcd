package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Recurrences.States;
import dev.starling.tensor.Recurrences.Weights;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Recurrence.Cell;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One step of a recurrent network, for loops of the caller's own: {@code x [N, in]} and a state {@code [N, units]} to
 * the next state. {@code lstm}, {@code gru} and {@code rnn} create it. Parameters are those of the first layer of
 * {@link Recurrent}, without the suffix.
 */
public final class RecurrentCell implements Layer {
    private final Cell cell;
    private final Parameter[] parameters;

    private RecurrentCell(Cell cell, long in, long units, Generator generator) {
        this.cell = cell;
        double bound = 1 / Math.sqrt(Math.max(1, units));
        Initializer initializer = Initializer.uniform(-bound, bound);
        long rows = cell.gates() * units;
        parameters = new Parameter[] {Parameter.of(initializer, generator, rows, in),
            Parameter.of(initializer, generator, rows, units), Parameter.of(initializer, generator, rows),
            Parameter.of(initializer, generator, rows)};
    }

    /** Returns a cell of long short-term memory. */
    public static RecurrentCell lstm(long in, long units, Generator generator) {
        return new RecurrentCell(Cell.LSTM, in, units, generator);
    }

    /** Returns a gated recurrent unit. */
    public static RecurrentCell gru(long in, long units, Generator generator) {
        return new RecurrentCell(Cell.GRU, in, units, generator);
    }

    /** Returns a plain cell with tanh. */
    public static RecurrentCell rnn(long in, long units, Generator generator) {
        return new RecurrentCell(Cell.TANH, in, units, generator);
    }

    /** Computes the hidden state after one step from zeros, {@code [N, units]}. */
    @Override
    public Tensor forward(Tensor x) {
        return forward(x, null).h();
    }

    /**
     * Computes the state after one step.
     *
     * @param state h and, for long short-term memory, c, {@code [N, units]}; {@code null} for zeros
     */
    public Recurrent.State forward(Tensor x, Recurrent.@Nullable State state) {
        if (x.rank() != 2 || x.size(1) != parameters[0].shape().dim(1)) {
            throw new TensorException(TensorException.Problem.SHAPE, describe(), List.of(x.spec()), "x must be [N, "
                    + parameters[0].shape().dim(1) + "], one step of each sequence", "use the layer for sequences");
        }
        Weights w = new Weights(parameters[0].value(), parameters[1].value(), parameters[2].value(),
                parameters[3].value());
        Tensor steps = x.unsqueeze(0);
        Tensor h = state == null ? null : state.h().to(x.dtype());
        Tensor c = state == null || state.c() == null ? null : state.c().to(x.dtype());
        States next = switch (cell) {
            case LSTM -> Recurrences.lstm(steps, h, c, w, false, null);
            case GRU -> Recurrences.gru(steps, h, w, false, null);
            case TANH, RELU -> Recurrences.rnn(steps, h, w, cell == Cell.RELU, false, null);
        };
        return new Recurrent.State(next.h(), next.c());
    }

    @Override
    public void visit(Visitor visitor) {
        String[] names = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
        for (int k = 0; k < names.length; k++) {
            visitor.parameter(names[k], parameters[k]);
        }
    }

    @Override
    public String settings() {
        return cell + ", " + parameters[0].shape().dim(1) + ", " + parameters[1].shape().dim(1);
    }

    @Override
    public String toString() {
        return tree();
    }
}
