package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.nn.Mode;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import org.jspecify.annotations.Nullable;

/**
 * Self-attention of a sequence with several heads: {@code x [N, L, width]} to the same shape. (Vaswani et al., 2017)
 */
public final class MultiHeadAttention implements Layer, Container {
    private final Layer project;
    private final Layer out;
    private final int heads;
    private final boolean causal;
    private final double dropout;

    private MultiHeadAttention(Layer project, Layer out, int heads, boolean causal, double dropout) {
        this.project = project;
        this.out = out;
        this.heads = heads;
        this.causal = causal;
        this.dropout = dropout;
    }

    /** Returns a layer in which each position attends to all others. The width must be divisible by {@code heads}. */
    public static MultiHeadAttention of(long width, int heads, Generator generator) {
        if (heads < 1 || width % heads != 0) {
            throw TensorException.argument("attention", "heads must divide " + width + ", got " + heads,
                    "use a divisor of the width");
        }
        return new MultiHeadAttention(Linear.of(width, 3 * width, generator), Linear.of(width, width, generator),
                heads, false, 0);
    }

    /** Returns a layer with the same weights in which each position attends to itself and earlier positions. */
    public MultiHeadAttention causal() {
        return new MultiHeadAttention(project, out, heads, true, dropout);
    }

    /** Returns a layer with the same weights that applies dropout to attention weights in training. */
    public MultiHeadAttention dropout(double probability) {
        return new MultiHeadAttention(project, out, heads, causal,
                new Dropout(probability).probability());
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, null);
    }

    /**
     * Computes the layer's result with a mask.
     *
     * @param mask broadcasts to {@code [N, heads, L, L]}; bool, true where a query attends; or floating, added to the
     *     scores; or {@code null}
     */
    public Tensor forward(Tensor x, @Nullable Tensor mask) {
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
    public MultiHeadAttention with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "project" -> new MultiHeadAttention(layer, out, heads, causal, dropout);
            case "out" -> new MultiHeadAttention(project, layer, heads, causal, dropout);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("project", project);
        visitor.layer("out", out);
    }

    @Override
    public String settings() {
        return "heads=" + heads + (causal ? ", causal" : "") + (dropout > 0 ? ", dropout=" + dropout : "");
    }

    @Override
    public String toString() {
        return tree();
    }
}
