package dev.starling.nn;

import dev.starling.tensor.TensorException;

/** A layer that contains others and can exchange them, so that {@link Layers#replace} finds its way through it. */
public interface Container extends Layer {
    /**
     * Returns a layer of this class that has another layer in one place and is otherwise this one, with the same layers
     * and parameters.
     *
     * @param name the name by which {@link #visit} passes the layer that is replaced
     * @throws TensorException if there is no such layer, or only layers of another class have a place there
     */
    Container with(String name, Layer replacement);

    /** Returns the exception for a layer that cannot have its place. */
    static TensorException refuse(Layer container, String name, Layer replacement) {
        return TensorException.argument("replace", container.describe() + " cannot have a " + replacement.describe()
                + " as \"" + name + "\"", "name one of its layers, and use a layer of the same class");
    }
}
