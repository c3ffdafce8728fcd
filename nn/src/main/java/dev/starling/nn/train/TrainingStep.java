package dev.starling.nn.train;

import dev.starling.autograd.GradientSink;
import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * One step of training: forward, backward, optimiser. Everything between is freed at its end. A step that fails leaves
 * the weights as they were; running statistics have seen its batch. Confined to one thread.
 */
public final class TrainingStep {
    private final Layer model;
    private final Loss loss;
    private final Optimizer optimizer;
    private final Generator generator;
    private final DistributionStrategy strategy;
    private final Tape tape = new Tape();
    private final Tensor[] watched;
    private final Tensor[] gradients;
    private final Map<Tensor, Integer> places = new IdentityHashMap<>();
    private final Device device;
    // Made once, so that a step makes no closures.
    private final Supplier<Tensor> forward = this::forward;
    private final Supplier<Tensor> recorded = this::record;
    private final GradientSink sink = this::gradient;
    private Tensor input;
    private Tensor target;
    private Tensor result;

    /** Makes a step that runs in this process alone. */
    public TrainingStep(Layer model, Loss loss, Optimizer optimizer, Generator generator) {
        this(model, loss, optimizer, generator, new SingleProcess());
    }

    /**
     * Makes a step.
     *
     * @param generator what layers in training draw from
     * @param strategy sees the gradients
     */
    public TrainingStep(Layer model, Loss loss, Optimizer optimizer, Generator generator,
            DistributionStrategy strategy) {
        this.model = model;
        this.loss = loss;
        this.optimizer = optimizer;
        this.generator = generator;
        this.strategy = strategy;
        watched = optimizer.watched();
        gradients = new Tensor[watched.length];
        device = watched[0].device();
        for (int i = 0; i < watched.length; i++) {
            places.put(watched[i], i);
        }
    }

    /**
     * Takes a step.
     *
     * @param newInput what the model is given, on any device
     * @param newTarget what the loss is given
     * @return the loss before the step
     * @throws TensorException if the loss is not finite, among other reasons
     */
    public double run(Tensor newInput, Tensor newTarget) {
        return run(newInput, newTarget, null);
    }

    double run(Tensor newInput, Tensor newTarget, Averages averages) {
        try (Scope scope = Scope.open("step")) {
            input = newInput.to(device);
            target = newTarget.to(device);
            tape.reset().watch(watched);
            Tensor total = Mode.training(generator, recorded);
            double value = total.item();
            if (!Double.isFinite(value)) {
                throw new TensorException(TensorException.Problem.ANOMALY, "training step", List.of(total.spec()),
                        "the loss is " + value, "lower the rate, clip gradients, or find the first operation that is "
                        + "not finite with Tape.detectAnomalies; weights are as before the step");
            }
            tape.backward(total, sink);
            if (averages != null) {
                averages.add(value, result, target, newInput.size(0));
            }
            if (strategy.beforeStep(gradients)) {
                optimizer.step(gradients);
            }
            strategy.afterStep();
            return value;
        } finally {
            Arrays.fill(gradients, null);
            tape.reset();
            input = null;
            target = null;
            result = null;
        }
    }

    private Tensor record() {
        return tape.record(forward);
    }

    private Tensor forward() {
        result = model.forward(input);
        return loss.of(result, target);
    }

    private void gradient(Tensor of, Tensor gradient) {
        // Lives until the step's scope closes.
        int place = places.get(of);
        gradients[place] = gradient.unhold();
        strategy.gradient(place, gradient);
    }
}
