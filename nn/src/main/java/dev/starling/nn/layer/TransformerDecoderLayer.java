package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Module;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A block of a transformer that translates one sequence into another: causal self-attention, attention to the memory
 * that an encoder has computed, and a perceptron; {@code x [N, L, width]} to the same shape. (Vaswani et al., 2017)
 */
public final class TransformerDecoderLayer implements Container {
    private final MultiHeadAttention attention;
    private final MultiHeadAttention cross;
    private final Perceptron perceptron;
    private final List<LayerNorm> norms;
    private final Dropout dropout;
    private final boolean normFirst;

    private TransformerDecoderLayer(MultiHeadAttention attention, MultiHeadAttention cross, Perceptron perceptron,
            List<LayerNorm> norms, Dropout dropout, boolean normFirst) {
        this.attention = attention;
        this.cross = cross;
        this.perceptron = perceptron;
        this.norms = norms;
        this.dropout = dropout;
        this.normFirst = normFirst;
    }

    /** Returns a layer with a rectifier in a perceptron of {@code hidden} units, without dropout. */
    public static TransformerDecoderLayer of(long width, int heads, long hidden, Generator generator) {
        return new TransformerDecoderLayer(MultiHeadAttention.of(width, heads, generator).causal(),
                MultiHeadAttention.of(width, heads, generator), Perceptron.of(width, hidden, new Relu(), generator),
                List.of(LayerNorm.of(width), LayerNorm.of(width), LayerNorm.of(width)), new Dropout(0), false);
    }

    /** Returns a layer with the same weights that normalises the inputs of its parts instead of the sums. */
    public TransformerDecoderLayer normFirst() {
        return new TransformerDecoderLayer(attention, cross, perceptron, norms, dropout, true);
    }

    /** Returns a layer with the same weights that applies dropout in training, also to attention weights. */
    public TransformerDecoderLayer dropout(double probability) {
        return new TransformerDecoderLayer(attention.dropout(probability), cross.dropout(probability),
                perceptron.dropout(probability), norms, new Dropout(probability), normFirst);
    }

    /**
     * Computes the result.
     *
     * @param memory {@code [N, S, width]}
     * @param mask which positions of the memory are attended to; see {@link MultiHeadAttention#cross}
     */
    public Tensor forward(Tensor x, Tensor memory, @Nullable Tensor mask) {
        Tensor y = Perceptron.add(x, attention::apply, norms.get(0), dropout, normFirst);
        Tensor z = Perceptron.add(y, in -> cross.cross(in, memory, mask), norms.get(1), dropout, normFirst);
        return Perceptron.add(z, perceptron::apply, norms.get(2), dropout, normFirst);
    }

    /** Exchanges an attention or the perceptron, for example for one with other layers inside. */
    @Override
    public TransformerDecoderLayer with(String name, Module replacement) {
        return switch (replacement) {
            case MultiHeadAttention other when name.equals("attention") -> new TransformerDecoderLayer(other, cross,
                    perceptron, norms, dropout, normFirst);
            case MultiHeadAttention other when name.equals("cross") -> new TransformerDecoderLayer(attention, other,
                    perceptron, norms, dropout, normFirst);
            case Perceptron other when name.equals("perceptron") -> new TransformerDecoderLayer(attention, cross,
                    other, norms, dropout, normFirst);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("attention", attention);
        visitor.layer("cross", cross);
        visitor.layer("perceptron", perceptron);
        for (int i = 0; i < norms.size(); i++) {
            visitor.layer("norm" + (i + 1), norms.get(i));
        }
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
