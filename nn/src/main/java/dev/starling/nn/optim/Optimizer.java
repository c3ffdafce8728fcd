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
    /**
     * Returns what is optimised, in the order in which gradients are given. Frozen parameters are among them: a step
     * leaves each as it is, with its state, until it is unfrozen.
     */
    List<Parameter> parameters();

    /**
     * Takes one step, if the device finds it sound; the host does not wait to know. The step counts in {@link #steps}
     * even where it changed nothing: who reads the guard and finds so may {@link #resume} from the count before.
     *
     * @param guard {@code []} of a floating type on the parameters' device: where it is infinite or NaN, parameters
     *     and state stay as they are; {@code null} for an unconditional step
     * @param gradients one for each of {@link #parameters}, on whatever device; a parameter whose gradient is
     *     {@code null} stays as it is, and so does a frozen one
     * @throws TensorException if a gradient does not fit, or if it has an element that is infinite or NaN and the host
     *     can see into the device; nothing is changed then. On other devices nothing is changed either, and
     *     {@link #requireFinite} throws
     */
    void step(Tensor guard, Tensor[] gradients);

    /** Takes one step along gradients, as {@link #step(Tensor, Tensor[])} does without a guard. */
    default void step(Tensor... gradients) {
        step(null, gradients);
    }

    /** Returns the path of a parameter in the model, for messages. */
    default String path(int parameter) {
        return "parameter " + parameter;
    }

    /**
     * Returns the number of a parameter that is not frozen and whose gradient has an element that is infinite or NaN,
     * or -1 if there is none; waits for the device.
     *
     * @param gradients as for {@link #step(Tensor, Tensor[])}
     */
    default int notFinite(Tensor[] gradients) {
        for (int i = 0; i < gradients.length; i++) {
            Tensor g = gradients[i];
            if (g != null && !g.isClosed() && parameters().get(i).requiresGradient()
                    && !g.device().backend().isFinite(g)) {
                return i;
            }
        }
        return -1;
    }

    /**
     * Tells whether the last step changed nothing because gradients were not finite, on a device that the host cannot
     * see into; waits for the device.
     */
    default boolean refused() {
        return false;
    }

    /**
     * Throws if the last step changed nothing because of something that this optimiser has found out on the device: to
     * be called, after the guard was read, by those who can wait for it.
     *
     * @throws TensorException of {@link TensorException.Problem#ANOMALY} that names the parameter
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

    /**
     * Returns the tensors that gradients are wanted for now: what a tape watches. To be asked anew for each step, since
     * parameters may be replaced, frozen or unfrozen between two.
     */
    default Tensor[] watched() {
        return parameters().stream().filter(Parameter::requiresGradient).map(Parameter::value).toArray(Tensor[]::new);
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

    /**
     * Returns in how many of the steps each parameter stayed as it was, since it was frozen or had no gradient, if that
     * matters to the steps to come; empty if not.
     */
    default long[] missed() {
        return new long[0];
    }

    /**
     * Goes on from a checkpoint, as {@link #resume(long)} does.
     *
     * @param missed what {@link #missed} returned; empty if no parameter had missed any
     */
    default void resume(long steps, long[] missed) {
        resume(steps);
    }

    /** Goes on from a checkpoint, after {@link #state} was filled: as if {@code steps} steps had been taken. */
    void resume(long steps);

    /** Gives the state's memory back; the parameters are left alone. */
    @Override
    void close();
}
