package dev.starling.nn.optim;

import dev.starling.autograd.Gradients;
import dev.starling.nn.Parameter;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * Changes parameters in place to reduce a loss. Its own state lives until {@link #close} and is as large as the
 * parameters or a multiple of them. May be used by one thread at a time.
 */
public interface Optimizer extends AutoCloseable {
    /** Name of a setting: how the learning rate changes, which may depend on the number of batches. */
    String SCHEDULE = "schedule of the learning rate";

    /**
     * Returns the parameters that are optimised, in the order in which gradients are passed. They include frozen
     * parameters: a step does not change these or their state until they are unfrozen.
     */
    List<Parameter> parameters();

    /**
     * Performs one step unless the device finds a value that is not finite; the host does not wait for that check. The
     * step counts in {@link #steps} even if it changed nothing. A caller that reads the guard and finds that it was not
     * finite may {@link #resume} from the previous count.
     *
     * @param guard {@code []} of a floating type on the parameters' device: if it is infinite or NaN, parameters and
     *     state stay unchanged; {@code null} for an unconditional step
     * @param gradients one for each of {@link #parameters}, on any device; a parameter stays unchanged if its gradient
     *     is {@code null} or it is frozen
     * @throws TensorException if a gradient does not match its parameter, or if a gradient has an element that is
     *     infinite or NaN and the host can access the device's memory; nothing is changed then. On other devices
     *     nothing is changed either, and {@link #requireFinite} throws
     */
    void step(@Nullable Tensor guard, Tensor[] gradients);

    /** Performs one step as {@link #step(Tensor, Tensor[])} does, without a guard. */
    default void step(Tensor... gradients) {
        step(null, gradients);
    }

    /** Returns the path of a parameter in the model, for messages. */
    default String path(int parameter) {
        return "parameter " + parameter;
    }

    /**
     * Returns the index of a parameter that is not frozen and whose gradient has an element that is infinite or NaN, or
     * -1 if there is none. Waits for the device.
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
     * Returns whether the last step changed nothing because gradients were not finite, on a device whose memory the
     * host cannot access. Waits for the device.
     */
    default boolean skipped() {
        return false;
    }

    /**
     * Throws an exception if the last step changed nothing because this optimiser found a value on the device that was
     * not finite. To be called after the guard was read, by a caller that can wait for the device.
     *
     * @throws TensorException with {@link TensorException.Problem#ANOMALY} that names the parameter
     */
    default void requireFinite() {
    }

    /** Performs one step along gradients of {@link Parameter#value}s. */
    default void step(Gradients gradients) {
        Tensor[] each = new Tensor[parameters().size()];
        for (int i = 0; i < each.length; i++) {
            each[i] = gradients.get(parameters().get(i).value());
        }
        step(each);
    }

    /**
     * Returns the tensors for which gradients are currently needed, which a tape has to watch. To be called for each
     * step, because parameters may be replaced, frozen or unfrozen between two steps.
     */
    default Tensor[] watched() {
        List<Tensor> values = new ArrayList<>(parameters().size());
        for (Parameter parameter : parameters()) {
            if (parameter.requiresGradient()) {
                values.add(parameter.value());
            }
        }
        return values.toArray(new Tensor[0]);
    }

    /** Returns the number of steps so far. */
    long steps();

    /** Returns the learning rate of the next step. */
    double rate();

    /** Returns the learning rate of the next step of a parameter, which may be in a group with its own rate. */
    default double rate(int parameter) {
        return rate();
    }

    /**
     * Returns the settings of this optimiser by name, as texts: those that must be equal on all processes that train
     * together. The default is only the name of the class.
     */
    default Map<String, String> settings() {
        return Map.of("optimiser", getClass().getName());
    }

    /**
     * Returns the rule of a parameter's steps, for callers that perform them elsewhere, or {@code null} if a step is
     * more than a rule for each element.
     */
    default @Nullable Rule rule(int parameter) {
        return null;
    }

    /** As {@link #rule}, if a parameter's steps need its gradient as a whole. */
    default @Nullable WholeRule wholeRule(int parameter) {
        return null;
    }

    /**
     * Returns the state tensors of a parameter, in the order of {@link Rule#slots} or {@link TensorRule#slots}, for
     * callers that perform its steps elsewhere.
     */
    default List<Parameter> stateOf(int parameter) {
        return List.of();
    }

    /**
     * Returns the state of all parameters by path. Together with {@link #steps} it is what a checkpoint must contain.
     */
    Map<String, Parameter> state();

    /**
     * Returns in how many steps each parameter stayed unchanged because it was frozen or had no gradient, if later
     * steps depend on that; otherwise an empty array.
     */
    default long[] missed() {
        return new long[0];
    }

    /**
     * Resumes from a checkpoint as {@link #resume(long)} does.
     *
     * @param missed the result of {@link #missed}; empty if no parameter has missed a step
     */
    default void resume(long steps, long[] missed) {
        resume(steps);
    }

    /** Resumes from a checkpoint after {@link #state} was filled, as if {@code steps} steps had been performed. */
    void resume(long steps);

    /** Frees the memory of the state. The parameters stay open. */
    @Override
    void close();
}
