package dev.starling.nn.layer;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Functions;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;

/** Looks up rows of a table: integers {@code [..]} to {@code [.., width]}, with {@code weight [rows, width]}. */
public final class Embedding implements Layer {
    private final Parameter weight;

    private Embedding(Parameter weight) {
        this.weight = weight;
    }

    /** Returns a layer whose table is drawn from the standard normal distribution. */
    public static Embedding of(long rows, long width, Generator generator) {
        return new Embedding(Parameter.of(Initializer.normal(0, 1), generator, rows, width));
    }

    /** Returns a layer with the caller's table, for example one that an output layer shares. */
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

    @Override
    public String settings() {
        return weight.shape().dim(0) + ", " + weight.shape().dim(1);
    }

    @Override
    public String toString() {
        return tree();
    }
}
