package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.tensor.DType;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * Attention with several heads: {@code x [N, L, width]} to the same shape. A sequence attends to itself, or to another
 * one ({@link #cross}). The rows of {@code project.weight} are those of queries, keys and values. (Vaswani et al.,
 * 2017)
 */
public final class MultiHeadAttention implements Layer, Container {
    private final Layer project;
    private final Layer out;
    private final long width;
    private final int heads;
    private final int keyHeads;
    private final boolean causal;
    private final double dropout;
    private final @Nullable RotaryPositions rotary;

    private MultiHeadAttention(Layer project, Layer out, long width, int heads, int keyHeads, boolean causal,
            double dropout, @Nullable RotaryPositions rotary) {
        this.project = project;
        this.out = out;
        this.width = width;
        this.heads = heads;
        this.keyHeads = keyHeads;
        this.causal = causal;
        this.dropout = dropout;
        this.rotary = rotary;
    }

    /**
     * Returns a layer in which each position attends to all others. The width must be divisible by {@code heads}.
     * Weights and biases are drawn as those of {@link Linear#of(long, long, Generator)}. (PyTorch draws the projection
     * by Glorot's rule, whose variance depends on how many rows are stored in one matrix: it would be another one with
     * fewer heads of keys. Its biases start at 0.)
     */
    public static MultiHeadAttention of(long width, int heads, Generator generator) {
        return grouped(width, heads, heads, generator);
    }

    /**
     * Returns a layer in which several heads of queries share a head of keys and values, which makes a
     * {@link KeyValueCache} smaller. (Ainslie et al., Grouped-query attention, 2023)
     *
     * @param heads divides the width
     * @param keyHeads number of heads of keys and values, divides {@code heads}
     */
    public static MultiHeadAttention grouped(long width, int heads, int keyHeads, Generator generator) {
        if (heads < 1 || width % heads != 0) {
            throw TensorException.argument("attention", "heads must divide " + width + ", got " + heads,
                    "use a divisor of the width");
        }
        if (keyHeads < 1 || heads % keyHeads != 0) {
            throw TensorException.argument("attention", "the heads of keys must divide " + heads + ", got " + keyHeads,
                    "use a divisor of the heads");
        }
        return new MultiHeadAttention(Linear.of(width, width + 2 * (width / heads * keyHeads), generator),
                Linear.of(width, width, generator), width, heads, keyHeads, false, 0, null);
    }

    /** Returns a layer with the same weights in which each position attends to itself and earlier positions. */
    public MultiHeadAttention causal() {
        return new MultiHeadAttention(project, out, width, heads, keyHeads, true, dropout, rotary);
    }

    /** Returns a layer with the same weights that applies dropout to attention weights in training. */
    public MultiHeadAttention dropout(double probability) {
        return new MultiHeadAttention(project, out, width, heads, keyHeads, causal,
                new Dropout(probability).probability(), rotary);
    }

    /** Returns a layer with the same weights that gives queries and keys {@link RotaryPositions}; usually 10,000. */
    public MultiHeadAttention rotary(double base) {
        return new MultiHeadAttention(project, out, width, heads, keyHeads, causal, dropout,
                new RotaryPositions(base));
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, (Tensor) null);
    }

    /**
     * Computes the layer's result with a mask.
     *
     * @param mask broadcasts to {@code [N, heads, L, L]}; bool, true where a query attends; or floating, added to the
     *     scores; or {@code null}
     */
    public Tensor forward(Tensor x, @Nullable Tensor mask) {
        Tensor[] parts = parts(x, 0);
        return attend(x, parts[0], parts[1], parts[2], mask, causal);
    }

    /**
     * Computes the result of the next positions of a text, which attend to themselves and to all positions before, as a
     * {@linkplain #causal causal} layer does. In inference only.
     *
     * @param x {@code [N, L, width]}: all positions of a prompt, or the one that was generated last
     * @param cache this layer's cache, to which the positions are added
     */
    public Tensor forward(Tensor x, KeyValueCache cache) {
        long before = cache.length();
        Tensor[] parts = parts(x, before);
        Tensor[] all = cache.append(parts[1], parts[2]);
        long length = x.size(1);
        Tensor mask = before == 0 || length == 1 ? null : positions(x, length).add(before).unsqueeze(1)
                .ge(positions(x, before + length));
        return attend(x, parts[0], all[0], all[1], mask, before == 0);
    }

    private static Tensor positions(Tensor x, long count) {
        return Tensor.arange(new Spec(DType.I64, Shape.of(count), x.device()), 0, 1);
    }

    /**
     * Computes cross-attention: positions of {@code x} attend to those of another sequence. It has no positions of its
     * own and is not causal.
     *
     * @param memory {@code [N, S, width]}
     * @param mask broadcasts to {@code [N, heads, L, S]}, as for {@link #forward(Tensor, Tensor)}
     */
    public Tensor cross(Tensor x, Tensor memory, @Nullable Tensor mask) {
        requireSequence(x);
        requireSequence(memory);
        long keyWidth = width / heads * keyHeads;
        return attend(x, split(part(x, 0, width), heads), split(part(memory, width, keyWidth), keyHeads),
                split(part(memory, width + keyWidth, keyWidth), keyHeads), mask, false);
    }

    /** Computes some of the columns of the projection. */
    private Tensor part(Tensor x, long first, long count) {
        if (!(project instanceof Linear linear)) {
            return project.apply(x).narrow(2, first, count);
        }
        Parameter bias = linear.bias();
        return Functions.linear(x, linear.weight().value().narrow(0, first, count),
                bias == null ? null : bias.value().narrow(0, first, count));
    }

    /** Returns queries, keys and values {@code [N, heads, L, E]} of positions that begin with {@code first}. */
    private Tensor[] parts(Tensor x, long first) {
        requireSequence(x);
        Tensor all = split(project.apply(x), heads + 2 * keyHeads);
        Tensor[] parts = {all.narrow(1, 0, heads), all.narrow(1, heads, keyHeads),
            all.narrow(1, heads + keyHeads, keyHeads)};
        for (int i = 0; rotary != null && i < 2; i++) {
            parts[i] = rotary.forward(parts[i], first);
        }
        return parts;
    }

    private void requireSequence(Tensor x) {
        if (x.rank() != 3 || x.size(2) != width) {
            throw new TensorException(TensorException.Problem.SHAPE, "attention", List.of(x.spec()),
                    "x must be [N, L, " + width + "]", "reshape it, or build the layer for this width");
        }
    }

    /** Returns {@code [N, L, heads·E]} as {@code [N, heads, L, E]}. */
    private static Tensor split(Tensor x, int heads) {
        return x.reshape(x.size(0), x.size(1), heads, x.size(2) / heads).permute(0, 2, 1, 3);
    }

    private Tensor attend(Tensor x, Tensor q, Tensor k, Tensor v, @Nullable Tensor mask, boolean ordered) {
        int shared = heads / keyHeads;
        double p = Mode.isTraining() ? dropout : 0;
        Tensor mixed = Functions.scaledDotProductAttention(q, shared == 1 ? k : k.repeat(1, shared),
                shared == 1 ? v : v.repeat(1, shared), mask, ordered, p, 1 / Math.sqrt(q.size(3)),
                p > 0 ? Mode.generator() : null);
        return out.apply(mixed.permute(0, 2, 1, 3).reshape(x.shape()));
    }

    @Override
    public MultiHeadAttention with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "project" -> new MultiHeadAttention(layer, out, width, heads, keyHeads, causal, dropout, rotary);
            case "out" -> new MultiHeadAttention(project, layer, width, heads, keyHeads, causal, dropout, rotary);
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
        return "heads=" + heads + (keyHeads < heads ? ", keyHeads=" + keyHeads : "") + (causal ? ", causal" : "")
                + (dropout > 0 ? ", dropout=" + dropout : "") + (rotary == null ? "" : ", rotary=" + rotary.base());
    }

    @Override
    public String toString() {
        return tree();
    }
}
