package dev.starling.nn.layer;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;

/** A layer with one weight, which can compute with another one in its place. */
interface WeightedLayer extends Layer {
    /** Returns the weight. */
    Parameter weight();

    /** Computes the layer's result with a tensor of the weight's shape in place of the weight. */
    Tensor forward(Tensor x, Tensor weight);
}
