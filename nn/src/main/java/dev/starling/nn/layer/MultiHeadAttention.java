package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;

/** Attention of a sequence to itself, by several heads: {@code x [N, L, width]} to the same. (Vaswani et al., 2017) */
public final class MultiHeadAttention implements Layer {
    private final Linear project;
    private final Linear out;
    private final int heads;
    private final boolean causal;
    private final double dropout;

    private MultiHeadAttention(Linear project, Linear out, int heads, boolean causal, double dropout) {
        this.project = project;
        this.out = out;
        this.heads = heads;
        this.causal = causal;
        this.dropout = dropout;
    }

    /** Makes a layer whose positions see all others; {@code heads} divides {@code width}. */
    public static MultiHeadAttention of(long width, int heads, Generator generator) {
        if (heads < 1 || width % heads != 0) {
            throw TensorException.argument("attention", "heads must divide " + width + ", got " + heads,
                    "change heads");
        }
        return new MultiHeadAttention(Linear.of(width, 3 * width, generator), Linear.of(width, width, generator),
                heads, false, 0);
    }

    /** Returns a layer of the same weights whose positions see themselves and those before them. */
    public MultiHeadAttention causal() {
        return new MultiHeadAttention(project, out, heads, true, dropout);
    }

    /** Returns a layer of the same weights that, in training, drops weights of attention. */
    public MultiHeadAttention dropout(double probability) {
        return new MultiHeadAttention(project, out, heads, causal,
                new Dropout(probability).probability());
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, null);
    }

    /**
     * Computes the layer's result under a mask.
     *
     * @param mask broadcasts to {@code [N, heads, L, L]}: bool, true where a query attends, or added to the scores; or
     *     {@code null}
     */
    public Tensor forward(Tensor x, Tensor mask) {
        long n = x.size(0);
        long length = x.size(1);
        long width = x.size(2);
        long head = width / heads;
        Tensor[] parts = project.apply(x).reshape(n, length, 3, heads, head).unstack(2);
        for (int i = 0; i < parts.length; i++) {
            parts[i] = parts[i].permute(0, 2, 1, 3);
        }
        double p = Mode.isTraining() ? dropout : 0;
        Tensor mixed = Functions.scaledDotProductAttention(parts[0], parts[1], parts[2], mask, causal, p,
                1 / Math.sqrt(head), p > 0 ? Mode.generator() : null);
        return out.apply(mixed.permute(0, 2, 1, 3).reshape(n, length, width));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("project", project);
        visitor.layer("out", out);
    }
}
