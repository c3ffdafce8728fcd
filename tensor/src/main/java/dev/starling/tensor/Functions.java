package dev.starling.tensor;

import dev.starling.tensor.op.Attention;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Random;

/**
 * Neural operations that are no method of a tensor: dense layers, embedding, dropout, attention. Convolutions, pooling,
 * normalisation and losses have classes of their own: {@link Convolutions}, {@link Pools}, {@link Norms},
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
    public static Tensor linear(Tensor x, Tensor weight, Tensor bias) {
        return linear(x, weight, bias, Epilogue.NONE);
    }

    /** Dense layer followed by {@code max(·, 0)}, in one pass; operands as in
     * {@link #linear(Tensor, Tensor, Tensor)}. */
    public static Tensor linearRelu(Tensor x, Tensor weight, Tensor bias) {
        return linear(x, weight, bias, Epilogue.RELU);
    }

    /** Dense layer followed by an activation, in one pass; operands as in {@link #linear(Tensor, Tensor, Tensor)}. */
    public static Tensor linear(Tensor x, Tensor weight, Tensor bias, Epilogue epilogue) {
        boolean keeps = epilogue == Epilogue.GELU && Recorder.current() != Recorder.NONE;
        Contraction.Linear op = new Contraction.Linear(epilogue, keeps);
        return bias == null ? Tensor.compute(op, x, weight) : Tensor.compute(op, x, weight, bias);
    }

    /**
     * Looks rows up.
     *
     * @param weight {@code [rows, width]}
     * @param index integers of any shape
     * @return {@code [*index, width]}
     */
    public static Tensor embedding(Tensor weight, Tensor index) {
        return weight.take(0, index);
    }

    /**
     * Sets each element, independently, to 0 with a probability, else divides it by {@code 1 - probability}: for
     * training. (Srivastava et al., 2014)
     *
     * @param probability at least 0, less than 1; with 0 nothing is drawn and {@code x} itself returned
     */
    public static Tensor dropout(Tensor x, double probability, Generator generator) {
        if (probability == 0) {
            return x;
        }
        long block = generator.advance(x.count());
        return Tensor.compute(new Random.Dropout(probability, generator.seed(), block), x);
    }

    /** Attention without mask and dropout, scaled by {@code 1/√E}. See the longer form. */
    public static Tensor scaledDotProductAttention(Tensor q, Tensor k, Tensor v, boolean causal) {
        return scaledDotProductAttention(q, k, v, null, causal, 0, 1 / Math.sqrt(q.size(-1)), null);
    }

    /**
     * Attention: {@code softmax(scale·q·kᵀ + mask)·v}; leading dimensions (batch, heads) broadcast. Without dropout
     * memory does not grow with {@code L·S}. (Vaswani et al., 2017)
     *
     * @param q {@code [.., L, E]}
     * @param k {@code [.., S, E]}
     * @param v {@code [.., S, V]}
     * @param mask broadcasts to {@code [.., L, S]}: bool, true where a query attends, or of the operands' type,
     *     added to the scores; a query that attends nowhere, or to whose scores -∞ is added, gives 0; or {@code null}
     * @param causal whether query {@code i} attends to keys {@code 0..i} only
     * @param dropout probability of dropping a weight; 0 when not training
     * @param scale of the scores, usually {@code 1/√E}
     * @param generator for dropout; may be {@code null} without
     * @return {@code [.., L, V]}
     */
    public static Tensor scaledDotProductAttention(Tensor q, Tensor k, Tensor v, Tensor mask, boolean causal,
            double dropout, double scale, Generator generator) {
        if (dropout != 0) {
            return dropout(Attention.weights(q, k, mask, causal, scale), dropout, generator).matmul(v);
        }
        Attention op = new Attention.ScaledDotProduct(scale, causal);
        return (mask == null ? Tensor.apply(op, q, k, v) : Tensor.apply(op, q, k, v, mask))[0];
    }
}
