package dev.starling.tensor.op;

import dev.starling.tensor.DType;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * One layer of a recurrent network over a whole sequence, in one direction. With T steps, a batch of N, I inputs, H
 * units and a cell of G gates, operands are {@code x [T, N, I]}, the state before the first step {@code h [N, H]} (and
 * {@code c [N, H]}), weights {@code [G·H, I]} of the input and {@code [G·H, H]} of the state, their two biases
 * {@code [G·H]}, which may both be absent, and optionally {@code lengths [N]}.
 *
 * <p>If {@code lengths} are given, i32 or i64 from 0 to T, the steps of a sequence beyond its length are skipped: their
 * results are 0 and leave the state unchanged. A reversed layer begins at the last step of the length. A length out of
 * range is an error on a device in host memory; a GPU clamps it.
 *
 * <p>Results are the state after each step {@code y [T, N, H]}, the state after the last one {@code h [N, H]} (and
 * {@code c [N, H]}), and the reserve {@code [T, N, R·H]}, which serves the gradient and carries none itself: R
 * intermediate values per unit and step, 0 at skipped steps. All have x's type; a 16-bit state may be rounded to it
 * between steps or kept in f32. A device may instead keep a reserve in a format of its own, u8 of one dimension, which
 * other devices cannot read ({@link dev.starling.tensor.spi.Backend#reserveBytes}).
 */
public sealed interface Recurrence extends Op {
    /** The computation of a step. */
    enum Cell {
        /** {@code h = tanh(x·Wᵀ + h·Uᵀ + biases)}. */
        TANH(1, 0),
        /** {@code h = max(x·Wᵀ + h·Uᵀ + biases, 0)}. */
        RELU(1, 0),
        /** As defined by {@link Gru}. */
        GRU(3, 4),
        /** As defined by {@link Lstm}. */
        LSTM(4, 5);

        private final int gates;
        private final int reserved;

        Cell(int gates, int reserved) {
            this.gates = gates;
            this.reserved = reserved;
        }

        /** Returns G, the number of blocks of H rows in the weights. */
        public int gates() {
            return gates;
        }

        /** Returns R, the number of values per unit and step that are kept for the gradient. */
        public int reserved() {
            return reserved;
        }
    }

    /** Returns the computation of a step. */
    default Cell cell() {
        return switch (this) {
            case Lstm _, LstmGradient _ -> Cell.LSTM;
            case Gru _, GruGradient _ -> Cell.GRU;
            case Rnn(boolean rectified, _, _) -> rectified ? Cell.RELU : Cell.TANH;
            case RnnGradient(boolean rectified, _, _) -> rectified ? Cell.RELU : Cell.TANH;
        };
    }

    /** Returns whether steps go from the last to the first. */
    boolean reverse();

    /**
     * The operands of a layer by name, as tensors or specs.
     *
     * @param x {@code [T, N, I]}
     * @param h {@code [N, H]}
     * @param c {@code [N, H]}; {@code null} for cells without one
     * @param weight of the input, {@code [G·H, I]}
     * @param recurrentWeight {@code [G·H, H]}
     * @param bias {@code [G·H]}, or {@code null}
     * @param recurrentBias {@code [G·H]}, or {@code null}
     * @param lengths {@code [N]}, or {@code null}
     * @param <T> tensor or spec
     */
    record Operands<T>(T x, T h, @Nullable T c, T weight, T recurrentWeight, @Nullable T bias,
            @Nullable T recurrentBias, @Nullable T lengths) { }

    /**
     * Returns the length of sequence {@code n}, for backends whose memory the host can read.
     *
     * @throws TensorException if the length is not from 0 to {@code steps}
     */
    static int length(Recurrence op, long given, int n, int steps) {
        if (given < 0 || given > steps) {
            throw new TensorException(TensorException.Problem.INDEX, op.name(), List.of(), "length " + given
                    + " of sequence " + n + " must be from 0 to the number of steps, " + steps,
                    "correct the length, or pad x");
        }
        return (int) given;
    }

    /** Assigns names to the layer's operands among those of this operation. */
    default <T> Operands<T> operands(T[] in) {
        int states = cell() == Cell.LSTM ? 2 : 1;
        int first = this instanceof Gradient ? states + 3 : 0;
        int w = first + 1 + states;
        int rest = in.length - w - 2;
        boolean biased = rest >= 2;
        return new Operands<>(in[first], in[first + 1], states == 2 ? in[first + 2] : null, in[w], in[w + 1],
                biased ? in[w + 2] : null, biased ? in[w + 3] : null, rest % 2 == 1 ? in[in.length - 1] : null);
    }

    /** A layer. */
    sealed interface Forward extends Recurrence {
        /**
         * Returns whether the reserve is kept. If not, its last size is 0, and the gradient of a cell with a reserve is
         * composed of single operations, which is slow.
         */
        boolean keeps();

        /** Returns the operation that computes the gradients; {@code input} requests that of x. */
        default Gradient gradient(boolean input) {
            return switch (this) {
                case Lstm _ -> new LstmGradient(reverse(), input);
                case Gru _ -> new GruGradient(reverse(), input);
                case Rnn layer -> new RnnGradient(layer.rectified, reverse(), input);
            };
        }

        @Override
        default Spec[] infer(Spec... in) {
            int min = cell() == Cell.LSTM ? 5 : 4;
            Check.operands(this, in, min, min + 3);
            Operands<Spec> o = operands(in);
            check(o, in);
            long own = keeps() ? o.x.device().backend().reserveBytes(this, in) : 0;
            Spec reserve = own > 0 ? new Spec(DType.U8, Shape.of(own), o.x.device()) : reserve(o);
            Spec y = o.x.with(o.x.shape().with(-1, o.h.shape().dim(1)));
            return o.c == null ? new Spec[] {y, o.h, reserve} : new Spec[] {y, o.h, o.c, reserve};
        }

        /** Returns the reserve's spec for devices without a format of their own. */
        private Spec reserve(Operands<Spec> o) {
            return o.x.with(o.x.shape().with(-1, keeps() ? cell().reserved * o.h.shape().dim(1) : 0));
        }

        private void check(Operands<Spec> o, Spec... in) {
            Spec[] numbers = o.lengths == null ? in : Arrays.copyOf(in, in.length - 1);
            Check.floating(this, numbers);
            Check.sameType(this, numbers);
            int gates = cell().gates;
            Shape x = o.x.shape();
            Shape u = o.recurrentWeight.shape();
            Check.shape(x.rank() == 3, this, "x must be [steps, batch, inputs]",
                    "unsqueeze it, or transpose it if the batch comes first", in);
            if (u.rank() != 2 || u.dim(0) != gates * u.dim(1)) {
                throw Check.shape(this, "the recurrent weight must be [" + (gates == 1 ? "" : gates + "·") + "H, H]",
                        "stack the gates' weights in rows", in);
            }
            long units = u.dim(1);
            Shape weight = Shape.of(gates * units, x.dim(2));
            if (!o.weight.shape().equals(weight)) {
                throw Check.shape(this, "the input weight must be " + weight,
                        "give one column for each of x's inputs, and as many rows as the recurrent weight has", in);
            }
            Shape state = Shape.of(x.dim(1), units);
            if (!o.h.shape().equals(state) || o.c != null && !o.c.shape().equals(state)) {
                throw Check.shape(this, "a state must be " + state, "give one state for each sequence of the batch",
                        in);
            }
            Shape bias = Shape.of(gates * units);
            if (o.bias != null && o.recurrentBias != null
                    && (!o.bias.shape().equals(bias) || !o.recurrentBias.shape().equals(bias))) {
                throw Check.shape(this, "both biases must be " + bias, "give one value for each row of the weights",
                        in);
            }
            if (o.lengths != null) {
                Check.index(this, o.lengths, in);
                if (!o.lengths.shape().equals(Shape.of(x.dim(1)))) {
                    throw Check.shape(this, "lengths must be [" + x.dim(1) + "]", "give one length for each sequence",
                            in);
                }
            }
        }

        @Override
        default Tensor[] vjp(Backward b) {
            if (b.recorded() || !keeps() && cell().reserved > 0) {
                return new UnrolledRecurrence(this, b).gradients();
            }
            int states = cell() == Cell.LSTM ? 2 : 1;
            Tensor[] in = new Tensor[states + 3 + b.inputs().length];
            for (int i = 0; i <= states; i++) {
                in[i] = b.grad(i);
            }
            in[states + 1] = b.out(0);
            in[states + 2] = b.out(states + 1);
            System.arraycopy(b.inputs(), 0, in, states + 3, b.inputs().length);
            Tensor[] gradients = Arrays.copyOf(Tensor.apply(gradient(b.needs(0)), in), b.inputs().length);
            gradients[0] = b.needs(0) ? gradients[0] : null;
            return gradients;
        }
    }

    /**
     * The gradients of a layer. Operands are the gradients of the results y and h (and c), then the layer's y and
     * reserve, then the layer's own operands. Results are the gradients of these own operands except {@code lengths}.
     * Every device accepts a reserve in the format that {@link Recurrence} defines.
     */
    sealed interface Gradient extends Recurrence, GradientKernel {
        /** Returns whether x's gradient is requested; if not, that result has no steps. */
        boolean input();

        /** Returns the layer, with or without its reserve. */
        default Forward forward(boolean keeps) {
            return switch (this) {
                case LstmGradient _ -> new Lstm(reverse(), keeps);
                case GruGradient _ -> new Gru(reverse(), keeps);
                case RnnGradient layer -> new Rnn(layer.rectified, reverse(), keeps);
            };
        }

        @Override
        default Spec[] infer(Spec... in) {
            int first = cell() == Cell.LSTM ? 5 : 4;
            Check.operands(this, in, 2 * first, 2 * first + 3);
            Forward layer = forward(true);
            Spec[] own = Arrays.copyOfRange(in, first, in.length);
            Spec[] results = layer.infer(own);
            for (int i = 0; i < first; i++) {
                Spec wanted = results[i < first - 2 ? i : i == first - 2 ? 0 : results.length - 1];
                if (i == first - 1 && in[i].equals(layer.reserve(operands(in)))) {
                    continue;
                }
                Check.dtype(in[i].dtype() == wanted.dtype(), this, "operands must have the same type",
                        "cast with to(DType)", in);
                if (!in[i].shape().equals(wanted.shape())) {
                    throw Check.shape(this, "gradients, y and reserve must have the specs of the layer's results, "
                            + Arrays.toString(results), "pass the results of the layer and their gradients", in);
                }
            }
            Spec[] gradients = Arrays.copyOf(own, own.length - (operands(in).lengths == null ? 0 : 1));
            gradients[0] = input() ? own[0] : own[0].with(own[0].shape().with(0, 0));
            return gradients;
        }
    }

    /**
     * Long short-term memory: of {@code x·Wᵀ + h·Uᵀ + biases}, {@code i}, {@code f} and {@code o} are the sigmoid and
     * {@code g} is the tanh; then {@code c = f·c + i·g} and {@code h = o·tanh c}. The rows of weights are in the order
     * i, f, g, o; so are the values in the reserve, followed by c. (Hochreiter and Schmidhuber, 1997; Gers et al.,
     * 2000)
     *
     * @param reverse whether steps run from the last to the first
     * @param keeps whether the reserve is kept
     */
    record Lstm(boolean reverse, boolean keeps) implements Forward { }

    /**
     * The gradients of {@link Lstm}'s operands.
     *
     * @param reverse as in {@link Lstm}
     * @param input whether x's gradient is requested
     */
    record LstmGradient(boolean reverse, boolean input) implements Gradient { }

    /**
     * Gated recurrent unit: of {@code a = x·Wᵀ + bias} and {@code u = h·Uᵀ + bias}, {@code r} and {@code z} are the
     * sigmoid of the sum, and {@code n = tanh(a + r·u)}; then {@code h = (1 - z)·n + z·h}. The rows of weights are in
     * the order r, z, n; so are the values in the reserve, followed by the u of n. (Cho et al., 2014)
     *
     * @param reverse whether steps run from the last to the first
     * @param keeps whether the reserve is kept
     */
    record Gru(boolean reverse, boolean keeps) implements Forward { }

    /**
     * The gradients of {@link Gru}'s operands.
     *
     * @param reverse as in {@link Gru}
     * @param input whether x's gradient is requested
     */
    record GruGradient(boolean reverse, boolean input) implements Gradient { }

    /**
     * Plain recurrence: {@code h = tanh(x·Wᵀ + h·Uᵀ + biases)}, or a rectifier in place of tanh. Its reserve has no
     * elements, except in a device's own format: y suffices for the gradient. (Elman, 1990)
     *
     * @param rectified whether to use {@code max(·, 0)} instead of tanh
     * @param reverse whether steps run from the last to the first
     * @param keeps whether the reserve is kept
     */
    record Rnn(boolean rectified, boolean reverse, boolean keeps) implements Forward { }

    /**
     * The gradients of {@link Rnn}'s operands.
     *
     * @param rectified as in {@link Rnn}
     * @param reverse as in {@link Rnn}
     * @param input whether x's gradient is requested
     */
    record RnnGradient(boolean rectified, boolean reverse, boolean input) implements Gradient { }
}
