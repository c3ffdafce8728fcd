package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/** Looks rows up: integers {@code [..]} to {@code [.., width]}; {@code weight [rows, width]}. */
public final class Embedding implements Layer {
    private final Parameter weight;

    private Embedding(Parameter weight) {
        this.weight = weight;
    }

    /** Makes a table of the standard normal distribution. */
    public static Embedding of(long rows, long width, Generator generator) {
        return new Embedding(Parameter.of(Initializer.normal(0, 1), generator, rows, width));
    }

    /** Makes a layer of a table that the caller made, for example one shared with an output layer. */
    public static Embedding of(Parameter weight) {
        return new Embedding(weight);
    }

    /** Returns the table. */
    public Parameter weight() {
        return weight;
    }

    @Override
    public Tensor forward(Tensor index) {
        return Functions.embedding(weight.value(), index);
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.parameter("weight", weight);
    }
}
