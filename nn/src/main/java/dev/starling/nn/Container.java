package dev.starling.nn;

import dev.starling.tensor.TensorException;

/**
 * A module that contains others and can exchange them, so that {@link Layers#replace} finds its way through it. A
 * record whose components are its modules needs not implement it.
 */
public interface Container extends Module {
    /**
     * Returns a module of this class that has another module in one place and is otherwise this one, with the same
     * modules and parameters.
     *
     * @param name the name by which {@link #visit} passes the module that is replaced
     * @throws TensorException if there is no such module, or only modules of another class have a place there
     */
    Container with(String name, Module replacement);

    /** Returns the exception for a module that cannot have its place. */
    static TensorException refuse(Module container, String name, Module replacement) {
        return TensorException.argument("replace", container.describe() + " cannot have a " + replacement.describe()
                + " as \"" + name + "\"", "name one of its layers, and use a layer of the same class");
    }
}
