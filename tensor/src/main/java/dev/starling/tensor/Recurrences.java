package dev.starling.tensor;

import dev.starling.tensor.op.Recurrence;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Recurrent layers over whole sequences: T steps of a batch of N, with I inputs and H units. A weight stacks the rows
 * of its gates, H for each gate. Values that the gradient needs are kept only while a recorder is bound.
 */
public final class Recurrences {
    private Recurrences() {
    }

    /**
     * The results of a layer.
     *
     * @param y the state after each step, {@code [T, N, H]}
     * @param h the state after the last step, {@code [N, H]}
     * @param c the cell after the last step, {@code [N, H]}; {@code null} for layers without one
     */
    public record States(Tensor y, Tensor h, @Nullable Tensor c) { }

    /**
     * The weights of a layer whose cell has G gates.
     *
     * @param input {@code [G·H, I]}
     * @param recurrent {@code [G·H, H]}
     * @param bias {@code [G·H]}; {@code null} if both biases are absent
     * @param recurrentBias {@code [G·H]}; {@code null} if both biases are absent
     */
    public record Weights(Tensor input, Tensor recurrent, @Nullable Tensor bias, @Nullable Tensor recurrentBias) {
        /** Checks that both biases are present or both absent. */
        public Weights {
            if ((bias == null) != (recurrentBias == null)) {
                throw TensorException.argument("recurrence", "both biases must be present or both absent",
                        "give zeros for one");
            }
        }
    }

    /**
     * Long short-term memory, with gates in the order input, forget, cell, output. (Hochreiter and Schmidhuber, 1997)
     *
     * @param x {@code [T, N, I]}
     * @param h {@code [N, H]}, or {@code null} for zeros
     * @param c {@code [N, H]}, or {@code null} for zeros
     * @param w weights with G = 4
     * @param reverse whether the layer runs from the last step to the first
     * @param lengths {@code [N]}, i32 or i64, or {@code null}: results are 0 past a sequence's length, its last state
     *     is the one at its length, and a reversed layer begins there
     */
    public static States lstm(Tensor x, @Nullable Tensor h, @Nullable Tensor c, Weights w, boolean reverse,
            @Nullable Tensor lengths) {
        Tensor[] r = Tensor.apply(new Recurrence.Lstm(reverse, recording()),
                operands(x, w, lengths, orZeros(h, x, w), orZeros(c, x, w)));
        return new States(r[0], r[1], r[2]);
    }

    /**
     * Gated recurrent unit, with gates in the order reset, update, new. The reset gate is applied after the product
     * with the recurrent weight and its bias, as in cuDNN. G is 3; the other parameters are those of {@link #lstm}.
     * (Cho et al., 2014)
     */
    public static States gru(Tensor x, @Nullable Tensor h, Weights w, boolean reverse, @Nullable Tensor lengths) {
        Tensor[] r = Tensor.apply(new Recurrence.Gru(reverse, recording()), operands(x, w, lengths, orZeros(h, x, w)));
        return new States(r[0], r[1], null);
    }

    /**
     * Plain recurrence {@code h = tanh(x·Wᵀ + h·Uᵀ + biases)}; G is 1, the other parameters are those of {@link #lstm}.
     * (Elman, 1990)
     *
     * @param rectified whether to use {@code max(·, 0)} in place of tanh
     */
    public static States rnn(Tensor x, @Nullable Tensor h, Weights w, boolean rectified, boolean reverse,
            @Nullable Tensor lengths) {
        Tensor[] r = Tensor.apply(new Recurrence.Rnn(rectified, reverse, recording()),
                operands(x, w, lengths, orZeros(h, x, w)));
        return new States(r[0], r[1], null);
    }

    private static boolean recording() {
        return Recorder.current() != Recorder.NONE;
    }

    /**
     * Returns zeros for an absent state. Where their shape cannot be derived, returns {@code x}: the operation then
     * reports what is wrong.
     */
    private static Tensor orZeros(@Nullable Tensor state, Tensor x, Weights w) {
        if (state != null || x.rank() != 3 || w.recurrent.rank() != 2) {
            return state != null ? state : x;
        }
        return Tensor.full(x.spec().with(Shape.of(x.size(1), w.recurrent.size(1))), 0);
    }

    private static Tensor[] operands(Tensor x, Weights w, @Nullable Tensor lengths, Tensor... states) {
        List<Tensor> all = new ArrayList<>(9);
        all.add(x);
        Collections.addAll(all, states);
        all.add(w.input);
        all.add(w.recurrent);
        if (w.bias != null) {
            all.add(w.bias);
            all.add(w.recurrentBias);
        }
        if (lengths != null) {
            all.add(lengths);
        }
        return all.toArray(Tensor[]::new);
    }
}
