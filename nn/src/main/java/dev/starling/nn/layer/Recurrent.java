package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recurrences;
import dev.starling.tensor.Recurrences.States;
import dev.starling.tensor.Recurrences.Weights;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Recurrence.Cell;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * A recurrent network. It maps {@code x [N, T, in]}, a batch of N sequences of T steps, to the states after each step,
 * {@code [N, T, D·units]}, where D is 2 if the network is bidirectional and otherwise 1. {@link Lstm}, {@link Gru} and
 * {@link Rnn} create it:
 *
 * <pre>{@code
 * Layer classifier = Sequential.of(Embedding.of(words, 64, g),
 *         Lstm.of(64, 128).bidirectional().last().build(g), Linear.of(2 * 128, classes, g));
 * Layer nextCharacter = Sequential.of(Embedding.of(256, 32, g),
 *         Gru.of(32, 256).layers(2).dropout(0.2).build(g), Linear.of(256, 256, g));
 * }</pre>
 *
 * <p>Parameters have the names, shapes and order of PyTorch's: {@code weight_ih_l0 [G·units, in]},
 * {@code weight_hh_l0 [G·units, units]}, {@code bias_ih_l0}, {@code bias_hh_l0 [G·units]}, with gates in the order i,
 * f, g, o or r, z, n; then those of the backward direction, {@code weight_ih_l0_reverse} and so on; then those of the
 * next layer, {@code _l1}. All are drawn uniformly from ±1/√units.
 */
public final class Recurrent implements Layer {
    private final Cell cell;
    private final long in;
    private final long units;
    private final int layers;
    private final int directions;
    private final double dropout;
    private final boolean timeFirst;
    private final boolean last;
    /** By layer and direction: two weights, and two biases or none. */
    private final Parameter[][] parameters;

    private Recurrent(Builder b, Generator generator) {
        cell = b.cell;
        in = b.in;
        units = b.units;
        layers = b.layers;
        directions = b.directions;
        dropout = b.dropout;
        timeFirst = b.timeFirst;
        last = b.last;
        parameters = new Parameter[layers * directions][];
        for (int i = 0; i < parameters.length; i++) {
            long rows = cell.gates() * units;
            long[][] shapes = {{rows, i < directions ? in : directions * units}, {rows, units}, {rows}, {rows}};
            parameters[i] = new Parameter[b.bias ? 4 : 2];
            for (int k = 0; k < parameters[i].length; k++) {
                parameters[i][k] = Parameter.of(b.initializer, generator, shapes[k]);
            }
        }
    }

    /**
     * The state of a network at the start or the end of a sequence.
     *
     * @param h hidden state, {@code [layers·D, N, units]}
     * @param c cell state of the same shape; {@code null} except for an LSTM
     */
    public record State(Tensor h, @Nullable Tensor c) { }

    /**
     * The result of a network.
     *
     * @param y the last layer's states after each step, {@code [N, T, D·units]}
     * @param state the final states of all layers
     */
    public record Result(Tensor y, State state) { }

    /** Computes the states after each step, or only the final ones if built with {@link Builder#last}. */
    @Override
    public Tensor forward(Tensor x) {
        return forward(x, null);
    }

    /**
     * Computes the same for sequences of different lengths.
     *
     * @param lengths {@code [N]}, i64 or i32; or {@code null}. Elements after a sequence's end have no influence,
     *     results are 0 there, and the backward direction starts at the end of the sequence
     */
    public Tensor forward(Tensor x, @Nullable Tensor lengths) {
        States[] states = new States[directions];
        Tensor y = run(x, null, lengths, states, null);
        return !last ? y : directions == 1 ? states[0].h() : Tensor.concat(1, states[0].h(), states[1].h());
    }

    /**
     * Starts from a given state, to compute a long sequence piece by piece. The final state belongs to the current
     * scope, like any result. Gradients flow back through it as far as one tape has recorded.
     *
     * @param state the final state of the previous piece, or {@code null} for zeros
     * @param lengths as in {@link #forward(Tensor, Tensor)}
     */
    public Result forward(Tensor x, @Nullable State state, @Nullable Tensor lengths) {
        Tensor[] h = new Tensor[layers * directions];
        Tensor[] c = new Tensor[h.length];
        if (state != null) {
            requireState(state, x);
        }
        List<States> all = new ArrayList<>();
        Tensor y = run(x, state, lengths, new States[directions], all);
        for (int i = 0; i < h.length; i++) {
            h[i] = all.get(i).h();
            c[i] = all.get(i).c();
        }
        return new Result(y, new State(Tensor.stack(0, h), cell == Cell.LSTM ? Tensor.stack(0, c) : null));
    }

    private void requireState(State state, Tensor x) {
        long[] expected = {(long) layers * directions, x.rank() == 3 ? x.size(timeFirst ? 1 : 0) : 0, units};
        for (Tensor s : cell == Cell.LSTM ? new Tensor[] {state.h, state.c} : new Tensor[] {state.h}) {
            if (s == null || !Arrays.equals(s.shape().dims(), expected)) {
                throw new TensorException(TensorException.Problem.SHAPE, describe(),
                        s == null ? List.of(x.spec()) : List.of(x.spec(), s.spec()), "a state must have h"
                        + (cell == Cell.LSTM ? " and c" : "") + " [layers·D, N, units] = "
                        + Arrays.toString(expected), "pass the final state of the previous piece of this batch");
            }
        }
    }

    /**
     * Returns the last layer's result. Stores its final states in {@code ends}, and those of all layers in {@code all}
     * unless that is {@code null}.
     */
    private Tensor run(Tensor x, @Nullable State state, @Nullable Tensor lengths, States[] ends,
            @Nullable List<States> all) {
        if (x.rank() != 3 || x.size(2) != in) {
            throw new TensorException(TensorException.Problem.SHAPE, describe(), List.of(x.spec()), "x must be "
                    + (timeFirst ? "[T, N, " : "[N, T, ") + in + "]",
                    "reshape it, or build the layer for inputs of this size");
        }
        Tensor y = timeFirst ? x : x.transpose(0, 1);
        for (int layer = 0; layer < layers; layer++) {
            if (layer > 0 && dropout > 0 && Mode.isTraining()) {
                y = Functions.dropout(y, dropout, Mode.generator());
            }
            for (int direction = 0; direction < directions; direction++) {
                ends[direction] = pass(y, layer * directions + direction, state, lengths);
                if (all != null) {
                    all.add(ends[direction]);
                }
            }
            y = directions == 1 ? ends[0].y() : Tensor.concat(2, ends[0].y(), ends[1].y());
        }
        return timeFirst ? y : y.transpose(0, 1);
    }

    private States pass(Tensor x, int i, @Nullable State state, @Nullable Tensor lengths) {
        Parameter[] p = parameters[i];
        Weights w = new Weights(p[0].value(), p[1].value(), p.length == 2 ? null : p[2].value(),
                p.length == 2 ? null : p[3].value());
        Tensor h = state == null ? null : state.h.narrow(0, i, 1).squeeze(0).to(x.dtype());
        boolean reverse = i % directions == 1;
        return switch (cell) {
            case LSTM -> Recurrences.lstm(x, h, state == null ? null
                    : Objects.requireNonNull(state.c).narrow(0, i, 1).squeeze(0).to(x.dtype()), w, reverse, lengths);
            case GRU -> Recurrences.gru(x, h, w, reverse, lengths);
            case TANH, RELU -> Recurrences.rnn(x, h, w, cell == Cell.RELU, reverse, lengths);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        String[] names = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
        for (int i = 0; i < parameters.length; i++) {
            for (int k = 0; k < parameters[i].length; k++) {
                String suffix = "_l" + i / directions + (i % directions == 1 ? "_reverse" : "");
                visitor.parameter(names[k] + suffix, parameters[i][k]);
            }
        }
    }

    @Override
    public String settings() {
        return in + ", " + units + (layers > 1 ? ", layers=" + layers : "") + (directions > 1 ? ", bidirectional" : "")
                + (dropout > 0 ? ", dropout=" + dropout : "") + (timeFirst ? ", timeFirst" : "")
                + (last ? ", last" : "");
    }

    @Override
    public String toString() {
        return tree();
    }

    @Override
    public String describe() {
        return cell == Cell.LSTM ? "Lstm" : cell == Cell.GRU ? "Gru" : "Rnn";
    }

    /** Collects the settings of a recurrent network. */
    public static final class Builder {
        private static final int MAX_LAYERS = 1024;

        private final Cell cell;
        private final long in;
        private final long units;
        private int layers = 1;
        private int directions = 1;
        private double dropout;
        private boolean bias = true;
        private boolean timeFirst;
        private boolean last;
        private Initializer initializer;

        Builder(Cell cell, long in, long units) {
            if (in < 1 || units < 1) {
                throw TensorException.argument("recurrent", "in and units must be at least 1, got " + in + " and "
                        + units, "use 1 or more of each");
            }
            this.cell = cell;
            this.in = in;
            this.units = units;
            double bound = 1 / Math.sqrt(units);
            initializer = Initializer.uniform(-bound, bound);
        }

        /** Stacks 1 to 1024 layers; default 1. */
        public Builder layers(int count) {
            if (count < 1 || count > MAX_LAYERS) {
                throw TensorException.argument("recurrent", "there must be 1 to " + MAX_LAYERS + " layers, got "
                        + count, "use a number in that range");
            }
            layers = count;
            return this;
        }

        /**
         * Makes each layer process the sequence in both directions, with separate weights for each direction. The
         * results of both are concatenated. (Schuster and Paliwal, 1997)
         */
        public Builder bidirectional() {
            directions = 2;
            return this;
        }

        /** Applies dropout between layers in training, as {@link Dropout} does. */
        public Builder dropout(double probability) {
            dropout = new Dropout(probability).probability();
            return this;
        }

        /** Omits the biases. */
        public Builder withoutBias() {
            bias = false;
            return this;
        }

        /** Uses {@code [T, N, ..]} instead of {@code [N, T, ..]} for inputs and results. */
        public Builder timeFirst() {
            timeFirst = true;
            return this;
        }

        /** Returns only the last layer's final states, {@code [N, D·units]}, for models that summarise a sequence. */
        public Builder last() {
            last = true;
            return this;
        }

        /** Sets the initialiser of weights and biases; default uniform within ±1/√units. */
        public Builder initializer(Initializer value) {
            initializer = value;
            return this;
        }

        /** Returns the layer, on the current device. */
        public Recurrent build(Generator generator) {
            return new Recurrent(this, generator);
        }
    }
}
