package dev.starling.nn.layer;

import dev.starling.nn.Container;
import dev.starling.nn.Layer;
import dev.starling.nn.Module;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/** The perceptron of a transformer: {@code second(dropout(activation(first(x))))}. */
final class Perceptron implements Layer, Container {
    private final Layer first;
    private final Layer activation;
    private final Layer second;
    private final Dropout dropout;

    private Perceptron(Layer first, Layer activation, Layer second, Dropout dropout) {
        this.first = first;
        this.activation = activation;
        this.second = second;
        this.dropout = dropout;
    }

    static Perceptron of(long width, long hidden, Layer activation, Generator generator) {
        return new Perceptron(Linear.of(width, hidden, generator), activation, Linear.of(hidden, width, generator),
                new Dropout(0));
    }

    Perceptron dropout(double probability) {
        return new Perceptron(first, activation, second, new Dropout(probability));
    }

    /** Adds the result of a part of a transformer to its input, and normalises the sum or the part's input. */
    static Tensor add(Tensor x, Layer part, LayerNorm norm, Dropout dropout, boolean normFirst) {
        Tensor y = dropout.forward(part.forward(normFirst ? norm.apply(x) : x));
        return normFirst ? x.add(y) : norm.apply(x.add(y));
    }

    @Override
    public Tensor forward(Tensor x) {
        return second.apply(dropout.forward(activation.apply(first.apply(x))));
    }

    @Override
    public Perceptron with(String name, Module replacement) {
        if (!(replacement instanceof Layer layer)) {
            throw Container.refuse(this, name, replacement);
        }
        return switch (name) {
            case "first" -> new Perceptron(layer, activation, second, dropout);
            case "activation" -> new Perceptron(first, layer, second, dropout);
            case "second" -> new Perceptron(first, activation, layer, dropout);
            default -> throw Container.refuse(this, name, replacement);
        };
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("first", first);
        visitor.layer("activation", activation);
        visitor.layer("second", second);
    }

    @Override
    public String toString() {
        return tree();
    }
}
