package dev.starling.nn.train;

import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Model;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.data.Batch;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.program.Explanation;
import dev.starling.tensor.program.Program;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One step of training: forward pass, backward pass, optimiser. All intermediate tensors are freed at its end. A step
 * fails if the loss or an element of a gradient is infinite or NaN. A failed step leaves the weights and the
 * optimiser's state unchanged, but running statistics include its batch, and random numbers have been drawn. Parameters
 * may be replaced, frozen or unfrozen between two steps. Confined to one thread.
 */
public final class TrainingStep implements AutoCloseable {
    private static final Tensor[] NO_FIELDS = {};

    private final Task task;
    private final Optimizer optimizer;
    private final Generator generator;
    private final DistributionStrategy strategy;
    private final StreamsGradients stream;
    private final Tape tape = new Tape();
    private boolean checked;
    private final List<Parameter> parameters;
    /** The tensor of each parameter that needs a gradient; {@code null} for frozen parameters. */
    private final Tensor[] trained;
    private final Tensor[] gradients;
    private final Map<Tensor, Integer> indices = new IdentityHashMap<>();
    private Tensor[] watched = {};
    private Device device;
    private final boolean[] delivered;
    private Precision precision = Precision.of(DType.F32);
    /** {@code null} if the loss is not scaled. */
    private @Nullable LossScale scale;
    /** {@code null} if steps are not captured. */
    private @Nullable CapturedPass captured;
    /** The position of the step that runs, if it is known, and the fields of its batch; for messages. */
    private @Nullable TrainingState position;
    private Tensor[] fields = NO_FIELDS;

    /** Creates a step for a single process. */
    public TrainingStep(Layer model, Loss loss, Optimizer optimizer, Generator generator) {
        this(model, loss, optimizer, generator, new SingleProcess());
    }

    /**
     * Creates a step.
     *
     * @param generator source of the random numbers that layers draw in training
     * @param strategy receives the gradients
     */
    public TrainingStep(Layer model, Loss loss, Optimizer optimizer, Generator generator,
            DistributionStrategy strategy) {
        this(Task.of(model, loss, List.of()), optimizer, generator, strategy);
    }

    /** Creates a step of a model with several inputs or results, for a single process. */
    public TrainingStep(Model<?, ?> model, Objective objective, Optimizer optimizer, Generator generator) {
        this(model, objective, optimizer, generator, new SingleProcess());
    }

    /** Creates a step of a model with several inputs or results. */
    public TrainingStep(Model<?, ?> model, Objective objective, Optimizer optimizer, Generator generator,
            DistributionStrategy strategy) {
        this(Task.of(model, objective, List.of()), optimizer, generator, strategy);
    }

    TrainingStep(Task task, Optimizer optimizer, Generator generator, DistributionStrategy strategy) {
        StepChecks.check(task.model(), optimizer);
        this.task = task;
        this.optimizer = optimizer;
        this.generator = generator;
        this.strategy = strategy;
        stream = StreamsGradients.of(strategy);
        parameters = optimizer.parameters();
        trained = new Tensor[parameters.size()];
        gradients = new Tensor[trained.length];
        delivered = new boolean[trained.length];
        device = parameters.getFirst().master().device();
    }

    /** Detects parameters that were replaced, frozen or unfrozen since the previous step. */
    private void updateParameters() {
        boolean unchanged = true;
        int count = 0;
        for (int i = 0; i < trained.length; i++) {
            Parameter p = parameters.get(i);
            Tensor current = p.requiresGradient() ? p.master() : null;
            if (current != null && current.isClosed()) {
                throw TensorException.argument("training step", "the parameter " + optimizer.path(i) + " is closed",
                        "close the model after the training, or create it again");
            }
            unchanged &= current == trained[i];
            trained[i] = current;
            count += current == null ? 0 : 1;
        }
        if (count == 0) {
            throw TensorException.argument("training step", "all parameters of the optimiser are frozen",
                    "unfreeze at least one of them");
        }
        if (unchanged) {
            return;
        }
        indices.clear();
        watched = new Tensor[count];
        for (int i = 0, n = 0; i < trained.length; i++) {
            if (trained[i] != null) {
                indices.put(trained[i], i);
                watched[n++] = trained[i];
            }
        }
        device = watched[0].device();
        if (captured != null) {
            captured.close();
            captured();
        }
    }

    /**
     * Captures the forward and backward pass. After two batches of one type and shape, further batches of that form,
     * and of up to three others, replay the recorded operations without running the code of model, loss and tape, in
     * memory that is planned once for each form, and on a GPU as one graph. Results are the same: bit for bit on the
     * CPU, to within rounding on a GPU. The model must compute the same operations for every batch of a shape, read no
     * element on the host, and draw random numbers only from its {@link Mode}. Otherwise the second step throws an
     * exception with the reason.
     */
    public TrainingStep captured() {
        captured = new CapturedPass(task, device, generator, this::pass, gradients, this::checkLoss, this::deliver);
        return this;
    }

    /**
     * Returns the operations of the captured pass that ran last, as the model issued them and as a replay carries them
     * out; empty if none is captured.
     */
    public Optional<Explanation> explain() {
        return captured == null ? Optional.empty() : captured.explain();
    }

    /** Frees the memory of captured passes. The step can be used again. */
    @Override
    public void close() {
        if (captured != null) {
            captured.close();
        }
        if (scale != null) {
            scale.close();
        }
    }

    /**
     * Sets the type in which layers compute; default f32, the type of the weights. In f16 the loss is scaled: a step
     * whose gradients overflow leaves weights and optimiser unchanged, and the next step uses half the scale. To be
     * called before the first step.
     *
     * @throws TensorException if the loss is scaled and the strategy performs steps
     *     {@linkplain StepsElsewhere elsewhere}
     */
    public TrainingStep precision(Precision newPrecision) {
        return precision(newPrecision, newPrecision.scalesLoss() ? new LossScale() : null);
    }

    TrainingStep precision(Precision newPrecision, @Nullable LossScale lossScale) {
        if (newPrecision.scalesLoss() && StepsElsewhere.of(strategy).stepsElsewhere()) {
            throw TensorException.argument("precision", newPrecision + " must skip steps whose gradients "
                    + "overflow, but this strategy performs steps in other processes", "use bf16");
        }
        precision = newPrecision;
        scale = lossScale;
        return this;
    }

    /** Returns the number of steps that were skipped because gradients overflowed in f16. */
    public long skipped() {
        return scale == null ? 0 : scale.skipped();
    }

    /**
     * Returns the factor by which the loss is multiplied so that f16 can represent the gradients; 1 for other types.
     */
    public double lossScale() {
        return scale == null ? 1 : scale.scale();
    }

    /**
     * Performs a step.
     *
     * @param input the model's input, on any device
     * @param target the target for the loss
     * @return the loss before the step
     * @throws TensorException if the loss is not finite, among other reasons
     */
    public double run(Tensor input, Tensor target) {
        return run(task.fields(input, target));
    }

    /**
     * Performs a step of a model with several inputs or results.
     *
     * @param input the model's inputs, on any device
     * @param targets a record with a target for each result that has a loss, of its name, on any device
     * @return the loss before the step
     * @throws TensorException if the loss is not finite, among other reasons
     */
    public double run(Record input, Record targets) {
        return run(task.fields(input, targets));
    }

    private double run(Tensor[] batch) {
        try (Scope scope = Scope.open("step"); Attempt attempt = new Attempt()) {
            BatchResult result = differentiate(StepBatch.single(batch, 1));
            boolean local = strategy.beforeStep(gradients) == DistributionStrategy.Step.LOCAL;
            double loss = local ? update(result) : readLoss(result, null);
            strategy.afterStep();
            attempt.succeeded = true;
            if (result != null) {
                task.check(result);
            }
            return loss;
        } finally {
            clear();
        }
    }

    /**
     * Performs a step along the mean gradient of several batches. The result is that of one batch with all their rows,
     * to within rounding. The loss must be a mean over rows.
     *
     * @param count number of batches
     * @param rows number of rows of all these batches, on all ranks that share them
     * @return {@link Outcome#TAKEN} if the step counts, or {@link Outcome#RESTORED}
     */
    Outcome run(Iterator<Batch> batches, int count, long rows, TrainingState state, Averages averages) {
        position = state;
        try (Scope scope = Scope.open("step"); Attempt attempt = new Attempt()) {
            state.randomize(generator, strategy.rank());
            BatchResult unread = null;
            for (int i = 1; i <= count; i++) {
                Batch batch = batches.next();
                double weight = batch.size() / (double) rows;
                if (count == 1) {
                    unread = differentiate(StepBatch.single(task.fields(batch), weight));
                } else {
                    try (Scope inner = Scope.open("batch")) {
                        readLoss(differentiate(new StepBatch(task.fields(batch), weight, inner, i == count)),
                                averages);
                    }
                }
            }
            double loss = 0;
            switch (strategy.beforeStep(gradients)) {
                case LOCAL -> loss = update(unread);
                case ELSEWHERE -> loss = readLoss(unread, null);
                case RESTORED -> {
                    attempt.succeeded = true;
                    return Outcome.RESTORED;
                }
            }
            // The step has been taken, and counts even if a metric throws an exception.
            state.advance(count);
            if (unread != null) {
                averages.add(loss, unread);
            }
            averages.endStep(true);
            strategy.afterStep();
            attempt.succeeded = true;
            return Outcome.TAKEN;
        } finally {
            averages.endStep(false);
            clear();
        }
    }

    /** A step; notifies the strategy if it fails, before the step's scope frees the gradients. */
    private final class Attempt implements AutoCloseable {
        private boolean succeeded;

        @Override
        public void close() {
            if (!succeeded) {
                stream.onFailedStep();
            }
        }
    }

    /**
     * Runs the forward and backward pass of a batch, and passes gradients that are final to the strategy. Returns
     * {@code null} if the batch has no rows.
     */
    private @Nullable BatchResult differentiate(StepBatch batch) {
        updateParameters();
        fields = batch.fields();
        stream.beforeForward(fields[0]);
        BatchResult result = null;
        if (batch.rows() > 0) {
            if (scale != null) {
                scale.upload(device);
            }
            result = captured == null || batch.scope() != null ? pass(batch) : captured.run(batch);
        }
        for (int i = 0; batch.last() && i < gradients.length; i++) {
            // Only earlier batches of this step have contributed to this gradient.
            if (gradients[i] != null && !delivered[i]) {
                stream.gradient(i, gradients[i]);
            }
        }
        return result;
    }

    /** What a forward pass results in, and the scalar that is differentiated: the loss, weighted and scaled. */
    private record Forward(BatchResult result, Tensor total) { }

    private BatchResult pass(StepBatch batch) {
        tape.reset().watch(watched);
        return precision.train(generator, () -> {
            Forward forward = tape.record(() -> forward(batch));
            Program.mark(CapturedPass.LOSS);
            if (!checked) {
                checked = true;
                StepChecks.warnOfActivations(tape, forward.result(), task.lossFunctions());
            }
            checkLoss(forward.result());
            tape.backward(forward.total(), (parameter, gradient) -> gather(batch, parameter, gradient));
            return forward.result();
        });
    }

    private Forward forward(StepBatch batch) {
        BatchResult result = task.forward(precision, Task.to(device, batch.fields()));
        Tensor weighted = batch.weight() == 1 ? result.loss() : result.loss().mul(batch.weight());
        return new Forward(result, scale == null ? weighted : scale.multiply(weighted));
    }

    /**
     * Checks the loss before the backward pass if reading it does not delay the host, or if other processes receive
     * gradients.
     */
    private void checkLoss(BatchResult result) {
        if (stream.sendsGradients() || device.backend().hostVisible()) {
            Interceptor gate = Interceptor.replace(Interceptor.NONE);
            try {
                requireFinite(result, result.loss().item());
                task.check(result);
            } finally {
                Interceptor.replace(gate);
            }
        }
    }

    /** Stores the gradient of a batch, or adds it to those of earlier batches of the step. */
    private void gather(StepBatch batch, Tensor parameter, Tensor gradient) {
        int index = Objects.requireNonNull(indices.get(parameter));
        // This tensor lives until the step's scope closes.
        if (scale == null) {
            gradient.storage().unhold();
        }
        Tensor own = scale == null ? gradient : scale.divide(gradient);
        gradients[index] = batch.scope() == null ? own : accumulate(gradients[index], own, batch.scope());
        if (batch.last()) {
            Program.mark(index);
            deliver(index);
        }
    }

    /** Returns the sum of a gradient and those of earlier batches, in the step's scope. */
    private static Tensor accumulate(@Nullable Tensor before, Tensor gradient, Scope batch) {
        // The first gradient is copied, because gradients may share memory with each other or with the batch.
        Tensor sum = before == null ? gradient.copy() : before.add(gradient);
        if (before != null) {
            before.close();
        }
        return batch.keep(sum);
    }

    /** Passes a gradient to the strategy. What the strategy computes is not captured. */
    private void deliver(int index) {
        delivered[index] = true;
        Interceptor gate = Interceptor.replace(Interceptor.NONE);
        try {
            stream.gradient(index, gradients[index]);
        } finally {
            Interceptor.replace(gate);
        }
    }

    /** Reads the loss of a batch and returns it; 0 if there is none, because the batch has no rows. */
    private double readLoss(@Nullable BatchResult batch, @Nullable Averages averages) {
        if (batch == null) {
            return 0;
        }
        double value = batch.loss().item();
        requireFinite(batch, value);
        if (averages != null) {
            averages.add(value, batch);
        }
        return value;
    }

    /**
     * Performs the optimiser's step, guarded by a loss that has not been read yet, and then reads and returns the loss.
     * When the host waits for it, all work of the step has been queued.
     */
    private double update(@Nullable BatchResult unread) {
        long steps = optimizer.steps();
        Tensor guard = unread == null ? null : unread.loss().rank() == 0 ? unread.loss() : unread.loss().reshape();
        boolean overflows = scale != null && device.backend().hostVisible() && optimizer.notFinite(gradients) >= 0;
        if (!overflows) {
            optimizer.step(guard, gradients);
        }
        try {
            double value = readLoss(unread, null);
            completeUpdate(overflows || scale != null && optimizer.skipped(), steps);
            return value;
        } catch (RuntimeException e) {
            // The device has left weights and optimiser state unchanged.
            optimizer.resume(steps);
            throw e;
        }
    }

    /** Completes a step whose outcome is known. */
    private void completeUpdate(boolean overflowed, long steps) {
        if (overflowed) {
            optimizer.resume(steps);
        } else {
            optimizer.requireFinite();
        }
        if (scale != null) {
            scale.adjust(!overflowed);
        }
    }

    private void requireFinite(BatchResult result, double number) {
        if (!Double.isFinite(number)) {
            throw StepChecks.notFinite(result, number, position, task, fields);
        }
    }

    private void clear() {
        Arrays.fill(gradients, null);
        Arrays.fill(delivered, false);
        position = null;
        fields = NO_FIELDS;
        tape.reset();
    }
}
