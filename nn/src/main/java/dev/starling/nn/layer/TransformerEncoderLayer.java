package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import org.jspecify.annotations.Nullable;

/**
 * A block of a transformer: self-attention and a perceptron, whose results are added to their input,
 * {@code x [N, L, width]} to the same shape. Sums are normalised; with {@link #normFirst}, inputs are instead. (Vaswani
 * et al., 2017)
 */
public final class TransformerEncoderLayer implements Layer, Container {
    private final MultiHeadAttention attention;
    private final Perceptron perceptron;
    private final LayerNorm norm1;
    private final LayerNorm norm2;
    private final Dropout dropout;
    private final boolean normFirst;

    private TransformerEncoderLayer(MultiHeadAttention attention, Perceptron perceptron, LayerNorm norm1,
            LayerNorm norm2, Dropout dropout, boolean normFirst) {
        this.attention = attention;
        this.perceptron = perceptron;
        this.norm1 = norm1;
        this.norm2 = norm2;
        this.dropout = dropout;
        this.normFirst = normFirst;
    }

    /** Returns a layer with a rectifier in a perceptron of {@code hidden} units, without dropout. */
    public static TransformerEncoderLayer of(long width, int heads, long hidden, Generator generator) {
        return of(MultiHeadAttention.of(width, heads, generator), width, hidden, new Relu(), generator);
    }

    /** Returns a layer with the caller's attention and activation, for example causal or grouped attention. */
    public static TransformerEncoderLayer of(MultiHeadAttention attention, long width, long hidden, Layer activation,
            Generator generator) {
        return new TransformerEncoderLayer(attention, Perceptron.of(width, hidden, activation, generator),
                LayerNorm.of(width), LayerNorm.of(width), new Dropout(0), false);
    }

    /** Returns a layer with the same weights that normalises the inputs of attention and perceptron. */
    public TransformerEncoderLayer normFirst() {
        return new TransformerEncoderLayer(attention, perceptron, norm1, norm2, dropout, true);
    }

    /** Returns a layer with the same weights that applies dropout in training, also to attention weights. */
    public TransformerEncoderLayer dropout(double probability) {
        return new TransformerEncoderLayer(attention.dropout(probability), perceptron.dropout(probability), norm1,
                norm2, new Dropout(probability), normFirst);
    }

    @Override
    public Tensor forward(Tensor x) {
        return forward(x, (Tensor) null);
    }

    /** Computes the result with a mask; see {@link MultiHeadAttention#forward(Tensor, Tensor)}. */
    public Tensor forward(Tensor x, @Nullable Tensor mask) {
        return around(x, in -> mask == null ? attention.apply(in) : attention.forward(in, mask));
    }

    /** Computes the next positions of a text; see {@link MultiHeadAttention#forward(Tensor, KeyValueCache)}. */
    public Tensor forward(Tensor x, KeyValueCache cache) {
        return around(x, in -> attention.forward(in, cache));
    }

    private Tensor around(Tensor x, Layer attended) {
        Tensor y = Perceptron.add(x, attended, norm1, dropout, normFirst);
        return Perceptron.add(y, perceptron::apply, norm2, dropout, normFirst);
    }

    /** Exchanges the attention or the perceptron, for example for one with other layers inside. */
    @Override
    public TransformerEncoderLayer with(String name, Module replacement) {
        return switch (replacement) {
            case MultiHeadAttention other when name.equals("attention") -> new TransformerEncoderLayer(other,
                    perceptron, norm1, norm2, dropout, normFirst);
            case Perceptron other when name.equals("perceptron") -> new TransformerEncoderLayer(attention, other,
                    norm1, norm2, dropout, normFirst);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("attention", attention);
        visitor.layer("perceptron", perceptron);
        visitor.layer("norm1", norm1);
        visitor.layer("norm2", norm2);
    }

    @Override
    public String settings() {
        return (normFirst ? "normFirst" : "") + (dropout.probability() > 0 ? (normFirst ? ", " : "") + "dropout="
                + dropout.probability() : "");
    }

    @Override
    public String toString() {
        return tree();
    }
}
