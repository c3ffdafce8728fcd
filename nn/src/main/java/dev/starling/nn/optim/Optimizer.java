package dev.starling.nn.optim;

import dev.starling.autograd.Gradients;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.List;
import java.util.Map;

/**
 * Changes parameters in place so that a loss gets smaller. Its own state lives until {@link #close} and is as large as
 * the parameters or a multiple of them. Confined to one thread at a time.
 */
public interface Optimizer extends AutoCloseable {
    /** Returns what is optimised, in the order in which gradients are given. */
    List<Parameter> parameters();

    /**
     * Takes one step, if the device finds it sound; the host does not wait to know. The step counts in {@link #steps}
     * even where it changed nothing: who reads the guard and finds so may {@link #resume} from the count before.
     *
     * @param guard {@code []} of a floating type on the parameters' device: where it is infinite or NaN, parameters
     *     and state stay as they are; {@code null} for an unconditional step
     * @param gradients one for each of {@link #parameters}, on whatever device; a parameter whose gradient is
     *     {@code null} stays as it is
     * @throws TensorException if a gradient does not fit; nothing is changed then
     */
    void step(Tensor guard, Tensor[] gradients);

    /** Takes one step along gradients, as {@link #step(Tensor, Tensor[])} does without a guard. */
    default void step(Tensor... gradients) {
        step(null, gradients);
    }

    /**
     * Throws if the last step changed nothing because of something that this optimiser has found out on the device: to
     * be called, after the guard was read, by those who can wait for it.
     */
    default void requireFinite() {
    }

    /** Takes one step along gradients of {@link Parameter#value}s. */
    default void step(Gradients gradients) {
        Tensor[] each = new Tensor[parameters().size()];
        for (int i = 0; i < each.length; i++) {
            each[i] = gradients.get(parameters().get(i).value());
        }
        step(each);
    }

    /** Returns the tensors that gradients are wanted for: what a tape watches. */
    default Tensor[] watched() {
        Tensor[] values = new Tensor[parameters().size()];
        for (int i = 0; i < values.length; i++) {
            values[i] = parameters().get(i).value();
        }
        return values;
    }

    /** Returns how many steps were taken. */
    long steps();

    /** Returns the rate of learning that the next step will use. */
    double rate();

    /**
     * Returns the operation that the next step will do on a parameter, for those who take the step elsewhere, or
     * {@code null} if the step is more than that.
     */
    default Update rule(int parameter) {
        return null;
    }

    /**
     * Returns what is kept of a parameter, in the order in which the operation of {@link #rule} is given it after
     * parameter and gradient; for those who take the step elsewhere.
     */
    default List<Parameter> kept(int parameter) {
        return List.of();
    }

    /** Returns what was learned about the parameters, by path: all that a checkpoint must hold, with {@link #steps}. */
    Map<String, Parameter> state();

    /** Goes on from a checkpoint, after {@link #state} was filled: as if {@code steps} steps had been taken. */
    void resume(long steps);

    /** Gives the state's memory back; the parameters are left alone. */
    @Override
    void close();
}
