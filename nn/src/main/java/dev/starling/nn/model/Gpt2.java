package dev.starling.nn.model;

import dev.starling.nn.Container;
import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Residual;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;

/**
 * A text decoder. It maps tokens, i64 {@code [N, L]}, to the logits of each following token,
 * {@code [N, L, vocabulary]}. It consists of blocks of causal attention and a perceptron four times as wide. The input
 * of both is normalised, and their result is added to it. The table of tokens is also the weight of the head. There is
 * no dropout. (Radford et al., 2019)
 */
public final class Gpt2 implements Layer, Container {
    private static final double DEVIATION = 0.02;

    private final Embedding tokens;
    private final Parameter positions;
    private final Layer blocks;
    private final Layer norm;

    private Gpt2(Embedding tokens, Parameter positions, Layer blocks, Layer norm) {
        this.tokens = tokens;
        this.positions = positions;
        this.blocks = blocks;
        this.norm = norm;
    }

    /** Returns the smallest of the published models: 12 blocks of width 768, 12 heads, 124 million parameters. */
    public static Gpt2 small(long vocabulary, Generator generator) {
        return of(vocabulary, 1024, 768, 12, 12, generator);
    }

    /**
     * Returns a model.
     *
     * @param vocabulary number of tokens; 50,257 in the published models
     * @param context maximum length of a text
     * @param heads number of attention heads, a divisor of {@code width}
     */
    public static Gpt2 of(long vocabulary, long context, long width, int depth, int heads, Generator generator) {
        // Each block adds to the residual stream twice; these weights start smaller so that it does not grow with
        // depth.
        Initializer plain = Initializer.normal(0, DEVIATION);
        Initializer residual = Initializer.normal(0, DEVIATION / Math.sqrt(2.0 * depth));
        List<Layer> blocks = new ArrayList<>();
        for (int i = 0; i < depth; i++) {
            MultiHeadAttention attention = MultiHeadAttention.of(width, heads, generator).causal();
            attention.parameters().forEach((path, p) -> initialise(p, path.equals("out.weight") ? residual : plain,
                    generator));
            blocks.add(Residual.of(Sequential.of(LayerNorm.of(width), attention)));
            blocks.add(Residual.of(Sequential.of(LayerNorm.of(width), linear(width, 4 * width, plain, generator),
                    new Gelu(true), linear(4 * width, width, residual, generator))));
        }
        return new Gpt2(Embedding.of(Parameter.of(plain, generator, vocabulary, width)),
                Parameter.of(plain, generator, context, width), Sequential.of(blocks), LayerNorm.of(width));
    }

    private static Linear linear(long in, long out, Initializer weight, Generator generator) {
        return Linear.of(Parameter.of(weight, generator, out, in), Parameter.filled(0, out));
    }

    /** Draws a new weight; a bias becomes zero. */
    private static void initialise(Parameter parameter, Initializer initializer, Generator generator) {
        Shape shape = parameter.shape();
        try (Scope scope = Scope.open("initialise")) {
            Recorder.with(Recorder.NONE, () -> {
                parameter.set(shape.rank() == 1 ? Tensor.zeros(shape.dims()) : initializer.draw(shape, generator));
                return null;
            });
        }
    }

    @Override
    public Tensor forward(Tensor x) {
        long length = x.size(1);
        if (length > positions.shape().dim(0)) {
            throw new TensorException(TensorException.Problem.SHAPE, "gpt2", List.of(x.spec()),
                    "a text may have at most " + positions.shape().dim(0) + " tokens",
                    "cut the text, or build a model with a larger context");
        }
        Tensor stream = tokens.apply(x).add(positions.value().narrow(0, 0, length));
        return Functions.linear(norm.apply(blocks.apply(stream)), tokens.weight().value(), null);
    }

    @Override
    public Gpt2 with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "blocks" -> new Gpt2(tokens, positions, layer, norm);
            case "norm" -> new Gpt2(tokens, positions, blocks, layer);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("tokens", tokens);
        visitor.parameter("places", positions);
        visitor.layer("blocks", blocks);
        visitor.layer("norm", norm);
    }

    @Override
    public String toString() {
        return tree();
    }
}
