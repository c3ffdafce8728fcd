package dev.starling.nn.energy;

import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.train.Metric;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Recorder;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Update;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Contrastive divergence, which a {@link dev.starling.nn.train.Trainer} trains in place of the machine itself. The
 * gradient of the log-likelihood of data is the difference of the free energy's gradients under the model and under the
 * data. Contrastive divergence represents the model by samples from {@code k} steps of Gibbs sampling, which start at
 * the data (CD-k; Hinton, 2002) or, with persistent chains, where the previous training step ended (PCD; Tieleman,
 * 2008).
 *
 * <p>For data {@code v [N, visible]} the result is {@code [N, 2]}: the free energy of the data minus that of the
 * samples, and the mean squared error of a reconstruction by one step without sampling. {@link #loss} is the mean of
 * the first column, {@link #reconstructionError} reports the second. In inference nothing is sampled, and the first
 * column compares the data with the reconstruction.
 *
 * <pre>{@code
 * Layer trained = ContrastiveDivergence.of(rbm, 1);
 * Trainer.of(trained, ContrastiveDivergence.loss(), Sgd.over(trained).rate(0.1).build()).data(images).build().run();
 * }</pre>
 */
public final class ContrastiveDivergence implements Layer {
    private final Rbm machine;
    private final int steps;
    /** The state of the persistent chains, {@code [chains, visible]}; {@code null} if chains start at the data. */
    private final @Nullable Parameter chains;
    private final Layer features;

    private ContrastiveDivergence(Rbm machine, int steps, @Nullable Parameter chains, Layer features) {
        if (steps < 1) {
            throw TensorException.argument("contrastive divergence", "k must be at least 1, got " + steps,
                    "pass the number of Gibbs steps");
        }
        this.machine = machine;
        this.steps = steps;
        this.chains = chains;
        this.features = features;
    }

    /**
     * Returns a layer that trains a machine by CD-k.
     *
     * @param steps k, at least 1
     */
    public static ContrastiveDivergence of(Rbm machine, int steps) {
        return new ContrastiveDivergence(machine, steps, null, x -> x);
    }

    /**
     * Returns a layer that trains a machine by persistent contrastive divergence. The chains are a buffer, which
     * checkpoints contain.
     *
     * @param steps k, at least 1
     * @param chains number of chains, at least 1; they start at random
     */
    public static ContrastiveDivergence persistent(Rbm machine, int steps, int chains, Generator generator) {
        if (chains < 1) {
            throw TensorException.argument("contrastive divergence", "there must be at least 1 persistent chain, got "
                    + chains, "pass a number of chains, for example the batch size");
        }
        try (Scope scope = Scope.open("chains")) {
            Tensor start = machine.sampleVisible(generator.bernoulli(0.5, chains, machine.hiddenBias().shape().dim(0))
                    .to(machine.weight().master().dtype()), generator);
            return new ContrastiveDivergence(machine, steps, Parameter.buffer(start), x -> x);
        }
    }

    /**
     * Returns a layer that trains the same machine on features of the data; the layers of the features are not trained.
     */
    ContrastiveDivergence onFeatures(Layer newFeatures) {
        return new ContrastiveDivergence(machine, steps, chains, newFeatures);
    }

    /**
     * Returns the mean difference of free energies, whose gradient is that of contrastive divergence. Ignores targets.
     */
    public static Loss loss() {
        return (result, target) -> result.narrow(1, 0, 1).mean();
    }

    /** Returns a metric of the mean squared error of a reconstruction. */
    public static Metric reconstructionError() {
        return Metric.of("reconstruction error", (result, target) -> result.narrow(1, 1, 1).sum().item());
    }

    @Override
    public Tensor forward(Tensor x) {
        Tensor v = withoutRecording(() -> features.forward(x));
        Tensor reconstruction = withoutRecording(() -> machine.visible(machine.forward(v)));
        Tensor error = withoutRecording(() -> reconstruction.sub(v).square().mean(1));
        Tensor samples = !Mode.isTraining() ? reconstruction : withoutRecording(() -> chains == null
                ? sample(v, Mode.generator()) : advance(chains, Mode.generator()));
        Tensor model = machine.freeEnergy(samples);
        Tensor difference = machine.freeEnergy(v).sub(samples.size(0) == v.size(0) ? model : model.mean());
        return Tensor.stack(1, difference, error);
    }

    private static Tensor withoutRecording(Supplier<Tensor> body) {
        return Recorder.with(Recorder.NONE, body);
    }

    /** Runs Gibbs steps from {@code start} and frees intermediate results. */
    private Tensor sample(Tensor start, Generator generator) {
        try (Scope scope = Scope.open("gibbs")) {
            Tensor v = start;
            for (int i = 0; i < steps; i++) {
                v = machine.sampleVisible(machine.sampleHidden(v, generator), generator);
            }
            return scope.keep(v);
        }
    }

    private Tensor advance(Parameter start, Generator generator) {
        Tensor end = sample(start.value(), generator);
        Tensor.apply(new Update.Assign(), start.value(), end);
        return end;
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("machine", machine);
        if (chains != null) {
            visitor.parameter("chains", chains);
        }
    }
}
