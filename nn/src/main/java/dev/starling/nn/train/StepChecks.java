package dev.starling.nn.train;

import dev.starling.autograd.Tape;
import dev.starling.nn.Module;
import dev.starling.nn.Parameter;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Activation;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Softmax;
import java.util.Collection;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Finds mistakes in what a training step is made of. */
final class StepChecks {
    private static final System.Logger LOG = System.getLogger("dev.starling.nn");

    private StepChecks() {
    }

    /** Requires the optimiser to change parameters of the model. */
    static void check(Module model, Optimizer optimizer) {
        Set<Parameter> own = Collections.newSetFromMap(new IdentityHashMap<>());
        Collection<Parameter> parameters = model.parameters().values();
        own.addAll(parameters);
        // A function of another layer has no parameters of its own.
        if (!own.isEmpty() && optimizer.parameters().stream().noneMatch(own::contains)) {
            throw TensorException.argument("training step", "the optimiser changes none of the model's "
                    + parameters.size() + " parameters, but " + optimizer.parameters().size() + " of another model",
                    "create the optimiser with over(model) of the model that is trained");
        }
    }

    /** Warns of results that end in a softmax or sigmoid although their loss computes one. */
    static void warnOfActivations(Tape tape, BatchResult result, List<Loss> losses) {
        for (int i = 0; i < losses.size(); i++) {
            Loss loss = losses.get(i);
            if (loss.expectsLogits()) {
                tape.source(result.results()[i]).filter(StepChecks::isProbability).ifPresent(last ->
                        LOG.log(System.Logger.Level.WARNING, "the model ends in a {0}, but its loss {1} computes the "
                                + "{0} itself and expects logits: training is slow and the loss stays high; remove "
                                + "the last {0}", last.name(), loss.getClass().getSimpleName()));
            }
        }
    }

    private static boolean isProbability(Op op) {
        return op instanceof Softmax.Exponentials || op.equals(Activation.SIGMOID);
    }

    /** Returns a loss, which must have one element. */
    static Tensor requireScalar(Tensor loss) {
        if (loss.count() != 1) {
            throw new TensorException(TensorException.Problem.SHAPE, "loss", List.of(loss.spec()),
                    "a loss must be a scalar, the mean over the batch", "end Loss.of with mean()");
        }
        return loss;
    }

    /** Makes the exception for a loss that is not finite. */
    static TensorException notFinite(BatchResult result, double value, @Nullable TrainingState state, Task task,
            Tensor[] fields) {
        String place = state == null ? "" : " in epoch " + (state.epoch() + 1) + ", batch " + (state.batch() + 1)
                + " (step " + (state.step() + 1) + ")";
        String known = "";
        String bad = "";
        for (int i = 0; i < fields.length; i++) {
            Tensor field = fields[i];
            if (!field.isClosed() && field.dtype().isFloating()) {
                known = i < task.inputs() ? ": the input is finite" : known.isEmpty() ? ": the target is finite"
                        : ": the input is finite, and so is the target";
                bad = !bad.isEmpty() || field.device().backend().isFinite(field) ? bad
                        : ": " + task.fieldName(i) + " has an element that is infinite or NaN";
            }
        }
        return new TensorException(TensorException.Problem.ANOMALY, "training step", List.of(result.loss().spec()),
                "the loss is " + value + task.each(result) + place + (bad.isEmpty() ? known : bad), !bad.isEmpty()
                ? "repair the data or its normalisation; weights are those before the step"
                : "lower the learning rate, clip gradients, or find the first operation that is not finite with "
                + "Tape.detectAnomalies; weights are those before the step");
    }
}
