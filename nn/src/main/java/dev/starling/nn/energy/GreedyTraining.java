package dev.starling.nn.energy;

import dev.starling.nn.Layer;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Schedule;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.List;
import java.util.function.IntSupplier;

/**
 * Pre-training and fine-tuning of a {@link DeepBeliefNetwork} as the epochs of one run, with one optimiser, one
 * strategy and one series of checkpoints. Each machine is trained for a number of epochs, from the data upwards; then
 * the classifier is trained until the run ends. Pass this object to the trainer as model and as listener, together with
 * its loss and metric.
 *
 * <pre>{@code
 * GreedyTraining greedy = GreedyTraining.of(network, network.classifier(10, generator), 1, 10);
 * Trainer.of(greedy, greedy.loss(), Adam.over(greedy).rate(0.002).betas(0.9, 0.95).build())
 *         .metrics(greedy.metric()).listeners(greedy).data(images).epochs(greedy.pretrainingEpochs() + 20).build()
 *         .run();
 * }</pre>
 *
 * <p>The gradients of contrastive divergence are far larger than those of the cross-entropy. An optimiser that divides
 * by a running mean of their squares must forget them within a fraction of an epoch: with Adam's default of 0.999,
 * fine-tuning makes little progress for many epochs.
 *
 * <p>A step changes only the machine that is being trained, because no other parameter has a gradient. Under gossip all
 * parameters still approach the mean, even if the workers are not at the same step. Steps cannot be captured, because
 * each machine has operations of its own. Data are {@code [N, ..]} with as many elements per row as there are visible
 * units.
 */
public final class GreedyTraining implements Layer, TrainingListener {
    private static final Metric ACCURACY = Metric.accuracy();
    private static final Metric ERROR = ContrastiveDivergence.reconstructionError();

    private final DeepBeliefNetwork network;
    private final Layer classifier;
    private final List<Layer> machines;
    private final int epochs;
    private final Layer flatten = new Flatten();
    /** The index of the machine that is being trained. An index above the last one stands for the classifier. */
    private int stage;

    private GreedyTraining(DeepBeliefNetwork network, Layer classifier, int steps, int epochs) {
        this.network = network;
        this.classifier = classifier;
        this.epochs = epochs;
        machines = network.stages(steps);
        stage = stageOf(0);
    }

    /**
     * Returns the model of a run.
     *
     * @param classifier a classifier of the network
     * @param steps k of contrastive divergence, at least 1
     * @param epochs epochs of pre-training per machine; 0 trains only the classifier
     * @throws TensorException if steps or epochs are too few
     */
    public static GreedyTraining of(DeepBeliefNetwork network, Layer classifier, int steps, int epochs) {
        if (epochs < 0) {
            throw TensorException.argument("greedy training", "epochs of each machine must be >= 0, got " + epochs,
                    "use 0 to skip pre-training");
        }
        return new GreedyTraining(network, classifier, steps, epochs);
    }

    /** Returns the number of epochs for which each machine is trained. */
    public int epochsOfEach() {
        return epochs;
    }

    /** Returns the number of pre-training epochs of the run. */
    public int pretrainingEpochs() {
        return epochs * machines.size();
    }

    /** Returns the loss, which depends on the epoch: that of contrastive divergence, then the cross-entropy. */
    public Loss loss() {
        Loss divergence = ContrastiveDivergence.loss();
        Loss crossEntropy = Loss.crossEntropy();
        return (result, target) -> (isPretraining() ? divergence : crossEntropy).of(result, target);
    }

    /** Returns the metric, which depends on the epoch: the reconstruction error of each machine, then the accuracy. */
    public Metric metric() {
        return metric(machines.size(), () -> stage);
    }

    /**
     * Returns the same metric for an observer in another process.
     *
     * @param machines number of machines
     * @param stage returns the index of the machine that is being trained, {@code machines} or more for the classifier
     */
    public static Metric metric(int machines, IntSupplier stage) {
        return new Metric() {
            private boolean isPretraining() {
                return stage.getAsInt() < machines;
            }

            private Metric current() {
                return isPretraining() ? ERROR : ACCURACY;
            }

            @Override
            public String name() {
                return (isPretraining() ? "machine " + (stage.getAsInt() + 1) + " " : "") + current().name();
            }

            @Override
            public double sumOver(Tensor result, Tensor target) {
                return current().sumOver(result, target);
            }

            @Override
            public String format(double mean) {
                return current().format(mean);
            }
        };
    }

    /**
     * Returns the schedule of the learning rate of a run.
     *
     * @param machine the rate while a machine is trained; it restarts from step 0 for each machine
     * @param fineTuning the rate afterwards, from step 0
     * @param steps number of steps in an epoch
     */
    public Schedule schedule(Schedule machine, Schedule fineTuning, long steps) {
        long before = pretrainingEpochs() * steps;
        return step -> step < before ? machine.rate(step % (epochs * steps)) : fineTuning.rate(step - before);
    }

    private boolean isPretraining() {
        return stage < machines.size();
    }

    private int stageOf(int epoch) {
        return epoch < pretrainingEpochs() ? epoch / epochs : machines.size();
    }

    @Override
    public void epochStarted(Progress progress) {
        stage = stageOf(progress.epoch() - 1);
    }

    @Override
    public Tensor forward(Tensor x) {
        return (isPretraining() ? machines.get(stage) : classifier).forward(flatten.forward(x));
    }

    @Override
    public void visit(Visitor visitor) {
        visitor.layer("network", network);
        visitor.layer("classifier", classifier);
    }
}
