package dev.starling.nn;

import dev.starling.tensor.TensorException;

/**
 * A function of several tensors with several results, together with the parameters that it uses. Inputs and results are
 * records of tensors, whose components are found in the data by their names:
 *
 * <pre>{@code
 * record Input(Tensor ids, Tensor numbers) { }
 * record Output(Tensor price, Tensor kind) { }
 *
 * record House(Embedding town, Linear trunk, Linear price, Linear kind) implements Model<Input, Output> {
 *     public Output forward(Input in) {
 *         Tensor x = trunk.apply(Tensor.concat(1, town.apply(in.ids()), in.numbers())).relu();
 *         return new Output(price.apply(x).squeeze(-1), kind.apply(x));
 *     }
 * }
 * }</pre>
 *
 * <p>A model that is a record contains the layers and parameters among its components; another class overrides
 * {@link #visit}. Modes and threads are those of a {@link Layer}.
 *
 * @param <I> a record of the model's inputs, each a tensor {@code [N, ..]}
 * @param <O> a record of its results, each a tensor {@code [N, ..]}
 */
public interface Model<I extends Record, O extends Record> extends Module {
    /** Computes the model's results. */
    O forward(I input);

    /**
     * Computes the model's results as part of a larger one, so that {@link Summary} can observe the call and errors
     * name the path.
     */
    default O apply(I input) {
        try {
            return Trace.CURRENT.isBound() ? Trace.CURRENT.get().call(this, () -> forward(input)) : forward(input);
        } catch (TensorException e) {
            throw LayerPath.within(this, e);
        }
    }

    @Override
    default Model<I, O> folded() {
        return Layers.folded(this);
    }

    /**
     * Returns the type of the inputs. By default it is read from the declaration of the class, {@code implements
     * Model<Input, Output>}; a class that leaves the types open overrides this method and {@link #outputs}.
     *
     * @throws TensorException if the declaration does not name a record
     */
    default RecordType<I> inputs() {
        return ModelTypes.argument(this, 0);
    }

    /** Returns the type of the results; see {@link #inputs}. */
    default RecordType<O> outputs() {
        return ModelTypes.argument(this, 1);
    }
}
