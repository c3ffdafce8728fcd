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
import dev.starling.tensor.Shaping;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Recurrence.Cell;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * A recurrent network: {@code x [N, T, in]}, a batch of N sequences of T steps, to the states after each step,
 * {@code [N, T, D·units]}, where D is 2 if it goes both ways, else 1. Made by {@link Lstm}, {@link Gru} and
 * {@link Rnn}:
 *
 * <pre>{@code
 * Layer classifier = Sequential.of(Embedding.of(words, 64, g),
 *         Lstm.of(64, 128).bidirectional().last().build(g), Linear.of(2 * 128, classes, g));
 * Layer nextCharacter = Sequential.of(Embedding.of(256, 32, g),
 *         Gru.of(32, 256).layers(2).dropout(0.2).build(g), Linear.of(256, 256, g));
 * }</pre>
 *
 * <p>Parameters have the names, shapes and order of PyTorch's: {@code weight_ih_l0 [G·units, in]},
 * {@code weight_hh_l0 [G·units, units]}, {@code bias_ih_l0}, {@code bias_hh_l0 [G·units]}, with gates in the order
 * i, f, g, o or r, z, n; then those of the way back, {@code weight_ih_l0_reverse} and so on; then those of the next
 * layer, {@code _l1}. All start even within ±1/√units.
 */
public final class Recurrent implements Layer {
    private final Cell cell;
    private final long in;
    private final long units;
    private final int layers;
    private final int ways;
    private final double dropout;
    private final boolean timeFirst;
    private final boolean last;
    /** Of each layer and way: two weights, two biases or none. */
    private final Parameter[][] parameters;

    private Recurrent(Builder b, Generator generator) {
        cell = b.cell;
        in = b.in;
        units = b.units;
        layers = b.layers;
        ways = b.ways;
        dropout = b.dropout;
        timeFirst = b.timeFirst;
        last = b.last;
        parameters = new Parameter[layers * ways][];
        for (int i = 0; i < parameters.length; i++) {
            long rows = cell.gates() * units;
            long[][] shapes = {{rows, i < ways ? in : ways * units}, {rows, units}, {rows}, {rows}};
            parameters[i] = new Parameter[b.bias ? 4 : 2];
            for (int k = 0; k < parameters[i].length; k++) {
                parameters[i][k] = Parameter.of(b.initializer, generator, shapes[k]);
            }
        }
    }

    /**
     * What a network ends a sequence with, and begins one with.
     *
     * @param h {@code [layers·D, N, units]}
     * @param c the same of cells; {@code null} but for an LSTM
     */
    public record State(Tensor h, Tensor c) { }

    /**
     * What a network computes.
     *
     * @param y the last layer's states after each step, {@code [N, T, D·units]}
     * @param state all layers' states at the end
     */
    public record Result(Tensor y, State state) { }

    /** Computes the states after each step, or, as built with {@link Builder#last}, those at the end. */
    @Override
    public Tensor forward(Tensor x) {
        return forward(x, null);
    }

    /**
     * Computes the same of sequences of which each has a length of its own.
     *
     * @param lengths {@code [N]}, i64 or i32; or {@code null}. What lies past them has no influence, results are 0
     *     there, and the way back begins at them
     */
    public Tensor forward(Tensor x, Tensor lengths) {
        States[] states = new States[ways];
        Tensor y = run(x, null, lengths, states, null);
        return !last ? y : ways == 1 ? states[0].h() : Shaping.concat(1, states[0].h(), states[1].h());
    }

    /**
     * Goes on from a state: to compute a long sequence piece by piece. What it ends with belongs to the current scope,
     * like any result; gradients flow back through it as far as one tape has recorded.
     *
     * @param state what an earlier piece ended with, or {@code null} for zeros
     * @param lengths as in {@link #forward(Tensor, Tensor)}
     */
    public Result forward(Tensor x, State state, Tensor lengths) {
        Tensor[] h = new Tensor[layers * ways];
        Tensor[] c = new Tensor[h.length];
        if (state != null) {
            requireState(state, x);
        }
        List<States> all = new ArrayList<>();
        Tensor y = run(x, state, lengths, new States[ways], all);
        for (int i = 0; i < h.length; i++) {
            h[i] = all.get(i).h();
            c[i] = all.get(i).c();
        }
        return new Result(y, new State(Shaping.stack(0, h), cell == Cell.LSTM ? Shaping.stack(0, c) : null));
    }

    private void requireState(State state, Tensor x) {
        long[] wanted = {(long) layers * ways, x.rank() == 3 ? x.size(timeFirst ? 1 : 0) : 0, units};
        for (Tensor s : cell == Cell.LSTM ? new Tensor[] {state.h, state.c} : new Tensor[] {state.h}) {
            if (s == null || !Arrays.equals(s.shape().dims(), wanted)) {
                throw new TensorException(TensorException.Problem.SHAPE, describe(),
                        s == null ? List.of(x.spec()) : List.of(x.spec(), s.spec()), "a state must have h"
                        + (cell == Cell.LSTM ? " and c" : "") + " [layers·D, N, units] = "
                        + Arrays.toString(wanted), "pass what an earlier piece of this batch ended with");
            }
        }
    }

    /** Returns the last layer's result; {@code ends} gets its states, {@code all}, unless {@code null}, everyone's. */
    private Tensor run(Tensor x, State state, Tensor lengths, States[] ends, List<States> all) {
        if (x.rank() != 3 || x.size(2) != in) {
            throw new TensorException(TensorException.Problem.SHAPE, describe(), List.of(x.spec()), "x must be "
                    + (timeFirst ? "[T, N, " : "[N, T, ") + in + "]", "reshape it, or build the layer for its size");
        }
        Tensor y = timeFirst ? x : x.transpose(0, 1);
        for (int layer = 0; layer < layers; layer++) {
            if (layer > 0 && dropout > 0 && Mode.isTraining()) {
                y = Functions.dropout(y, dropout, Mode.generator());
            }
            for (int way = 0; way < ways; way++) {
                ends[way] = pass(y, layer * ways + way, state, lengths);
                if (all != null) {
                    all.add(ends[way]);
                }
            }
            y = ways == 1 ? ends[0].y() : Shaping.concat(2, ends[0].y(), ends[1].y());
        }
        return timeFirst ? y : y.transpose(0, 1);
    }

    private States pass(Tensor x, int i, State state, Tensor lengths) {
        Parameter[] p = parameters[i];
        Weights w = new Weights(p[0].value(), p[1].value(), p.length == 2 ? null : p[2].value(),
                p.length == 2 ? null : p[3].value());
        Tensor h = state == null ? null : state.h.narrow(0, i, 1).squeeze(0).to(x.dtype());
        boolean reverse = i % ways == 1;
        return switch (cell) {
            case LSTM -> Recurrences.lstm(x, h, state == null ? null
                    : state.c.narrow(0, i, 1).squeeze(0).to(x.dtype()), w, reverse, lengths);
            case GRU -> Recurrences.gru(x, h, w, reverse, lengths);
            case TANH, RELU -> Recurrences.rnn(x, h, w, cell == Cell.RELU, reverse, lengths);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        String[] names = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
        for (int i = 0; i < parameters.length; i++) {
            for (int k = 0; k < parameters[i].length; k++) {
                visitor.parameter(names[k] + "_l" + i / ways + (i % ways == 1 ? "_reverse" : ""), parameters[i][k]);
            }
        }
    }

    @Override
    public String describe() {
        return cell == Cell.LSTM ? "Lstm" : cell == Cell.GRU ? "Gru" : "Rnn";
    }

    /** Gathers what a recurrent network is made of. */
    public static final class Builder {
        private static final int MAX_LAYERS = 1024;

        private final Cell cell;
        private final long in;
        private final long units;
        private int layers = 1;
        private int ways = 1;
        private double dropout;
        private boolean bias = true;
        private boolean timeFirst;
        private boolean last;
        private Initializer initializer;

        Builder(Cell cell, long in, long units) {
            if (in < 1 || units < 1) {
                throw TensorException.argument("recurrent", "there must be inputs and units, got " + in + " and "
                        + units, "give 1 or more of each");
            }
            this.cell = cell;
            this.in = in;
            this.units = units;
            double bound = 1 / Math.sqrt(units);
            initializer = Initializer.uniform(-bound, bound);
        }

        /** Puts 1 to 1024 layers one upon the other; the default is 1. */
        public Builder layers(int count) {
            if (count < 1 || count > MAX_LAYERS) {
                throw TensorException.argument("recurrent", "there must be 1 to " + MAX_LAYERS + " layers, got "
                        + count, "change it");
            }
            layers = count;
            return this;
        }

        /**
         * Lets each layer go through the sequence both ways, from the first step and from the last, with weights of its
         * own for each; the results stand side by side. (Schuster and Paliwal, 1997)
         */
        public Builder bidirectional() {
            ways = 2;
            return this;
        }

        /** Sets, in training, elements between two layers to 0 with a probability, as {@link Dropout} does. */
        public Builder dropout(double probability) {
            dropout = new Dropout(probability).probability();
            return this;
        }

        /** Leaves the biases out. */
        public Builder withoutBias() {
            bias = false;
            return this;
        }

        /** Takes and gives {@code [T, N, ..]} rather than {@code [N, T, ..]}. */
        public Builder timeFirst() {
            timeFirst = true;
            return this;
        }

        /** Gives only the last layer's states at the end, {@code [N, D·units]}: for what sums a sequence up. */
        public Builder last() {
            last = true;
            return this;
        }

        /** Sets how weights and biases start; even within ±1/√units unless told. */
        public Builder initializer(Initializer first) {
            initializer = first;
            return this;
        }

        /** Makes the layer on the current device. */
        public Recurrent build(Generator generator) {
            return new Recurrent(this, generator);
        }
    }
}
