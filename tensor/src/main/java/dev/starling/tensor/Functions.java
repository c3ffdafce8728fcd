package dev.starling.tensor;

import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Random;
import org.jspecify.annotations.Nullable;

/**
 * Neural operations that are not methods of {@link Tensor}: dense layers, embedding, dropout, attention. Convolutions,
 * pooling, normalisation and losses are in classes of their own: {@link Convolutions}, {@link Pools}, {@link Norms},
 * {@link Losses}.
 */
public final class Functions {
    private Functions() {
    }

    /**
     * Dense layer: {@code x·weightᵀ + bias}.
     *
     * @param x {@code [.., in]}
     * @param weight {@code [out, in]}
     * @param bias {@code [out]}, or {@code null}
     * @return {@code [.., out]}
     */
    public static Tensor linear(Tensor x, Tensor weight, @Nullable Tensor bias) {
        return linear(x, weight, bias, Epilogue.NONE);
    }

    /** Dense layer followed by {@code max(·, 0)}, in one pass; operands as in
     * {@link #linear(Tensor, Tensor, Tensor)}. */
    public static Tensor linearRelu(Tensor x, Tensor weight, @Nullable Tensor bias) {
        return linear(x, weight, bias, Epilogue.RELU);
    }

    /** Dense layer followed by an activation, in one pass; operands as in {@link #linear(Tensor, Tensor, Tensor)}. */
    public static Tensor linear(Tensor x, Tensor weight, @Nullable Tensor bias, Epilogue epilogue) {
        boolean keeps = epilogue == Epilogue.GELU && Recorder.current() != Recorder.NONE;
        Contraction.Linear op = new Contraction.Linear(epilogue, keeps);
        return bias == null ? Tensor.compute(op, x, weight) : Tensor.compute(op, x, weight, bias);
    }

    /**
     * Selects rows of a table.
     *
     * @param weight {@code [rows, width]}
     * @param index integers of any shape
     * @return {@code [*index, width]}
     */
    public static Tensor embedding(Tensor weight, Tensor index) {
        return weight.take(0, index);
    }

    /**
     * Dropout, for training: sets each element independently to 0 with the given probability and divides the others by
     * {@code 1 - probability}. (Srivastava et al., 2014)
     *
     * @param probability at least 0 and less than 1; with 0 no random numbers are drawn and {@code x} itself is
     *     returned
     */
    public static Tensor dropout(Tensor x, double probability, Generator generator) {
        if (probability == 0) {
            return x;
        }
        long block = generator.advance(x.count());
        return Tensor.compute(new Random.Dropout(probability, generator.seed(), block), x);
    }

    /**
     * Attention without mask and dropout, scaled by {@code 1/√E}; see {@link #scaledDotProductAttention(Tensor, Tensor,
     * Tensor, Tensor, boolean, double, double, Generator)}.
     */
    public static Tensor scaledDotProductAttention(Tensor q, Tensor k, Tensor v, boolean causal) {
        return scaledDotProductAttention(q, k, v, null, causal, 0, 1 / Math.sqrt(q.size(-1)), null);
    }

    /**
     * Attention: {@code softmax(scale·q·kᵀ + mask)·v}. Leading dimensions (batch, heads) broadcast. Without dropout
     * memory use does not grow with {@code L·S}. (Vaswani et al., 2017)
     *
     * @param q {@code [.., L, E]}
     * @param k {@code [.., S, E]}
     * @param v {@code [.., S, V]}
     * @param mask broadcasts to {@code [.., L, S]}, or is {@code null}: bool, true where a query attends to a key; or
     *     of the operands' type, added to the scores. A query that attends to no key, or whose scores are all -∞, gives
     *     0
     * @param causal whether query {@code i} attends to keys {@code 0..i} only
     * @param dropout probability of dropping an attention weight; 0 for inference
     * @param scale factor of the scores, usually {@code 1/√E}
     * @param generator for dropout; may be {@code null} without dropout
     * @return {@code [.., L, V]}
     */
    public static Tensor scaledDotProductAttention(Tensor q, Tensor k, Tensor v, @Nullable Tensor mask, boolean causal,
            double dropout, double scale, @Nullable Generator generator) {
        if (dropout != 0) {
            if (generator == null) {
                throw TensorException.argument("attention", "dropout needs a generator",
                        "pass a generator, or a dropout of 0");
            }
            return dropout(Attention.weights(q, k, mask, causal, scale), dropout, generator).matmul(v);
        }
        Attention op = new Attention.ScaledDotProduct(scale, causal);
        return (mask == null ? Tensor.apply(op, q, k, v) : Tensor.apply(op, q, k, v, mask))[0];
    }
}
