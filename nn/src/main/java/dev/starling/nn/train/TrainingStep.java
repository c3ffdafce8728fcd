package dev.starling.nn.train;

import dev.starling.autograd.GradientSink;
import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Precision;
import dev.starling.nn.data.Batch;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.program.Program;
import java.util.Arrays;
import java.util.IdentityHashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;

/**
 * One step of training: forward, backward, optimiser. Everything between is freed at its end. A step that fails leaves
 * the weights, and what the optimiser keeps, as they were; running statistics have seen its batch, and random numbers
 * were drawn. A step fails if the loss, or an element of a gradient, is infinite or NaN. Parameters may be replaced,
 * frozen or unfrozen between two steps. Confined to one thread.
 */
public final class TrainingStep implements AutoCloseable {
    /** The mark of the place where the loss is known; gradients are marked with their numbers. */
    private static final int LOSS = -1;
    /** Where gradients begin in the outputs of a captured pass. */
    private static final int FIRST_GRADIENT = 3;

    private final Layer model;
    private final Loss loss;
    private final Optimizer optimizer;
    private final Generator generator;
    private final DistributionStrategy strategy;
    private final Tape tape = new Tape();
    private final List<Parameter> parameters;
    /** By parameter, the tensor that a gradient is wanted for; {@code null} where the parameter is frozen. */
    private final Tensor[] wanted;
    private final Tensor[] gradients;
    private final Map<Tensor, Integer> places = new IdentityHashMap<>();
    private Tensor[] watched = {};
    private Device device;
    // Made once, so that a step makes no closures.
    private final Supplier<Tensor> forward = this::forward;
    private final Supplier<Tensor> recorded = this::record;
    private final Supplier<Tensor> differentiated = this::forwardAndBackward;
    private final GradientSink sink = this::gradient;
    private final boolean[] delivered;
    private Precision precision = Precision.of(DType.F32);
    /** {@code null} if the loss is not scaled. */
    private LossScale scale;
    private Tensor input;
    private Tensor target;
    private Tensor result;
    private Tensor value;
    private double weight;
    /** Whether more batches of this step follow. */
    private boolean more;
    private Scope batchScope;
    /** {@code null} if every step runs anew. */
    private CapturedPass captured;

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
        parameters = optimizer.parameters();
        wanted = new Tensor[parameters.size()];
        gradients = new Tensor[wanted.length];
        delivered = new boolean[wanted.length];
        device = parameters.getFirst().master().device();
    }

    /** Takes notice of parameters that were replaced, frozen or unfrozen since the step before. */
    private void look() {
        boolean isSame = true;
        int count = 0;
        for (int i = 0; i < wanted.length; i++) {
            Parameter p = parameters.get(i);
            Tensor now = p.requiresGradient() ? p.master() : null;
            isSame &= now == wanted[i];
            wanted[i] = now;
            count += now == null ? 0 : 1;
        }
        if (count == 0) {
            throw TensorException.argument("training step", "all parameters of the optimiser are frozen, one or more "
                    + "must not be", "unfreeze some");
        }
        if (isSame) {
            return;
        }
        places.clear();
        watched = new Tensor[count];
        for (int i = 0, n = 0; i < wanted.length; i++) {
            if (wanted[i] != null) {
                places.put(wanted[i], i);
                watched[n++] = wanted[i];
            }
        }
        device = watched[0].device();
        if (captured != null) {
            captured.close();
            captured();
        }
    }

    /**
     * Captures forward and backward pass: what batches of one type and shape have done twice is replayed from the third
     * on, without the code of model, loss and tape, in memory that is planned once; on a GPU as one graph. Results are
     * the same, bit for bit on the CPU, to within rounding on a GPU. The model must compute the same operations for
     * every batch of a shape, read no element on the host, and draw random numbers from its {@link Mode} alone; else
     * the second step throws, saying why.
     */
    public TrainingStep captured() {
        captured = new CapturedPass(device, generator, this::pass, this::passed);
        return this;
    }

    /** Gives back the memory of what was captured; the step can be used again. */
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
     * Sets the type in which layers compute; f32, as the weights are, unless told. In f16 the loss is scaled: a step
     * whose gradients overflow leaves weights and optimiser as they were, and the next uses half the scale. To be
     * called before the first step.
     *
     * @throws TensorException if the loss is scaled and the strategy takes steps {@linkplain
     *     DistributionStrategy#stepsElsewhere elsewhere}
     */
    public TrainingStep precision(Precision computing) {
        return precision(computing, computing.scalesLoss() ? new LossScale() : null);
    }

    TrainingStep precision(Precision computing, LossScale lossScale) {
        if (computing.scalesLoss() && strategy.stepsElsewhere()) {
            throw TensorException.argument("precision", computing + " needs steps to be left out when gradients "
                    + "overflow, but the strategy takes them elsewhere", "use bf16");
        }
        precision = computing;
        scale = lossScale;
        return this;
    }

    /** Returns how many steps changed nothing because gradients overflowed in f16. */
    public long skipped() {
        return scale == null ? 0 : scale.skipped();
    }

    /** Returns what the loss is multiplied with so that f16 can hold the gradients; 1 for other types. */
    public double lossScale() {
        return scale == null ? 1 : scale.scale();
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
        try (Scope scope = Scope.open("step")) {
            differentiate(newInput, newTarget, 1);
            double loss = end(strategy.beforeStep(gradients), null);
            strategy.afterStep();
            return loss;
        } finally {
            clear();
        }
    }

    /**
     * Takes a step along the mean gradient of several batches: as one batch of all their rows would, to within
     * rounding. The loss has to be a mean over rows.
     *
     * @param count how many batches
     * @param rows of all of them on all ranks that share them
     * @return whether the step counts; if not, the strategy has restored the state
     */
    boolean run(Iterator<Batch> batches, int count, long rows, TrainingState state, Averages averages) {
        try (Scope scope = Scope.open("step")) {
            state.randomize(generator, strategy.rank());
            for (int i = 1; i <= count; i++) {
                more = i < count;
                Batch batch = batches.next();
                double share = batch.size() / (double) rows;
                if (count == 1) {
                    differentiate(batch.input(), batch.target(), share);
                } else {
                    try (Scope inner = Scope.open("batch")) {
                        batchScope = inner;
                        differentiate(batch.input(), batch.target(), share);
                        measure(averages);
                    }
                }
            }
            boolean local = strategy.beforeStep(gradients);
            if (state.isRestored()) {
                return false;
            }
            end(local, averages);
            state.advance(count);
            averages.endStep(true);
            strategy.afterStep();
            return true;
        } finally {
            averages.endStep(false);
            clear();
        }
    }

    /** Runs forward and backward on a batch, whose gradients count {@code part} of the step's. */
    private void differentiate(Tensor newInput, Tensor newTarget, double part) {
        look();
        strategy.beforeForward(newInput);
        if (newInput.size(0) > 0) {
            weight = part;
            if (scale != null) {
                scale.show(device);
            }
            Tensor[] outputs = captured == null || batchScope != null ? null
                    : captured.run(newInput, newTarget, weight);
            if (outputs == null) {
                pass(newInput.to(device), newTarget.to(device));
            } else {
                input = newInput;
                value = outputs[0];
                result = outputs[1];
                target = outputs[2];
            }
        }
        for (int i = 0; !more && i < gradients.length; i++) {
            // What only earlier batches of this step have contributed to.
            if (gradients[i] != null && !delivered[i]) {
                strategy.gradient(i, gradients[i]);
            }
        }
    }

    private void pass(Tensor newInput, Tensor newTarget) {
        input = newInput;
        target = newTarget;
        tape.reset().watch(watched);
        precision.run(differentiated);
    }

    private Tensor forwardAndBackward() {
        Tensor total = Mode.training(generator, recorded);
        Program.mark(LOSS);
        checkLoss();
        tape.backward(total, sink);
        return total;
    }

    /** The pass as a program has it. */
    private Tensor[] pass(Tensor[] inputs) {
        pass(inputs[0], inputs[1]);
        Tensor[] outputs = Arrays.copyOf(new Tensor[] {value, result, target}, FIRST_GRADIENT + gradients.length);
        System.arraycopy(gradients, 0, outputs, FIRST_GRADIENT, gradients.length);
        return outputs;
    }

    /** What a pass does beside operations, in a replay. */
    private void passed(int label, Tensor[] outputs) {
        if (label == LOSS) {
            value = outputs[0];
            checkLoss();
        } else {
            gradients[label] = outputs[FIRST_GRADIENT + label];
            offer(label);
        }
    }

    /** Stops a step before its backward pass where the host need not wait for the loss, or others would be misled. */
    private void checkLoss() {
        if (strategy.sendsGradients() || device.backend().hostVisible()) {
            Interceptor gate = Interceptor.replace(null);
            try {
                requireFinite(value.item());
            } finally {
                Interceptor.replace(gate);
            }
        }
    }

    /** Shows the strategy a gradient, whatever is captured. */
    private void offer(int place) {
        delivered[place] = true;
        Interceptor gate = Interceptor.replace(null);
        try {
            strategy.gradient(place, gradients[place]);
        } finally {
            Interceptor.replace(gate);
        }
    }

    /** Reads the loss of a batch, of which nothing is known then, and returns it: 0 where there is none to read. */
    private double measure(Averages averages) {
        if (value == null) {
            return 0;
        }
        double loss = value.item();
        requireFinite(loss);
        if (averages != null) {
            averages.add(loss, result, target, input.size(0));
        }
        value = null;
        return loss;
    }

    /**
     * Takes the optimiser's step, which a loss that was not read yet guards; then reads it: the host has queued all of
     * the step's work by the time that it waits.
     *
     * @param local whether there is a step to take
     */
    private double end(boolean local, Averages averages) {
        long steps = optimizer.steps();
        Tensor guard = value == null || value.rank() == 0 ? value : value.reshape();
        boolean overflows = false;
        if (local) {
            overflows = scale != null && device.backend().hostVisible() && optimizer.notFinite(gradients) >= 0;
            if (!overflows) {
                optimizer.step(guard, gradients);
            }
        }
        try {
            double loss = measure(averages);
            if (local) {
                overflows |= scale != null && optimizer.refused();
                finish(overflows, steps);
            }
            return loss;
        } catch (RuntimeException e) {
            // The device has left all else as it was.
            optimizer.resume(steps);
            throw e;
        }
    }

    /** Ends a step of which all is known. */
    private void finish(boolean overflowed, long steps) {
        if (overflowed) {
            optimizer.resume(steps);
        } else {
            optimizer.requireFinite();
        }
        if (scale != null) {
            scale.stepped(!overflowed);
        }
    }

    private void requireFinite(double loss) {
        if (!Double.isFinite(loss)) {
            throw new TensorException(TensorException.Problem.ANOMALY, "training step", List.of(value.spec()),
                    "the loss is " + loss, "lower the rate, clip gradients, or find the first operation that is "
                    + "not finite with Tape.detectAnomalies; weights are as before the step");
        }
    }

    private void clear() {
        Arrays.fill(gradients, null);
        Arrays.fill(delivered, false);
        tape.reset();
        input = null;
        target = null;
        result = null;
        value = null;
        batchScope = null;
        more = false;
    }

    private Tensor record() {
        return tape.record(forward);
    }

    private Tensor forward() {
        result = loss.widens() ? precision.narrow(model, input) : precision.forward(model, input);
        value = loss.of(result, target);
        Tensor total = weight == 1 ? value : value.mul(weight);
        return scale == null ? total : scale.multiply(total);
    }

    private void gradient(Tensor of, Tensor gradient) {
        int place = places.get(of);
        // Lives until the step's scope closes.
        Tensor own = scale == null ? gradient.unhold() : scale.divide(gradient);
        gradients[place] = batchScope == null ? own : accumulated(gradients[place], own);
        if (!more) {
            Program.mark(place);
            offer(place);
        }
    }

    /** Returns the sum of a gradient and those of batches before, in the step's scope. */
    private Tensor accumulated(Tensor before, Tensor gradient) {
        // A copy at first, because gradients may share their memory with each other or with the batch.
        Tensor sum = before == null ? gradient.copy() : before.add(gradient);
        if (before != null) {
            before.close();
        }
        return batchScope.keep(sum);
    }
}
