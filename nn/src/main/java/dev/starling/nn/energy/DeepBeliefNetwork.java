package dev.starling.nn.energy;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Sigmoid;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;

/**
 * A stack of restricted Boltzmann machines. Each machine is trained greedily on the hidden units of the machine below
 * it, from the data upwards. The whole stack is then fine-tuned as a network by backpropagation. (Hinton, Osindero and
 * Teh, 2006; Bengio et al., 2007)
 *
 * <pre>{@code
 * DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, generator, 784, 500, 500, 2000);
 * for (Layer stage : network.stages(1)) {
 *     Trainer.of(stage, ContrastiveDivergence.loss(), Sgd.over(stage).rate(0.1).build()).data(images).build().run();
 * }
 * Layer classifier = network.classifier(10, generator);   // shares the machines' weights
 * }</pre>
 *
 * <p>{@link GreedyTraining} does all of this in one run. As a layer, the network maps {@code [N, visible]} to the
 * probabilities {@code [N, top]} of the top machine.
 */
public final class DeepBeliefNetwork implements Layer {
    private final List<Rbm> machines;
    private final Sequential features;

    private DeepBeliefNetwork(List<Rbm> machines) {
        this.machines = List.copyOf(machines);
        features = Sequential.of(features(0, machines.size()));
    }

    /**
     * Creates a network. Machines above the first have Bernoulli visible units.
     *
     * @param units the distribution of the data
     * @param sizes the number of visible units, then the number of hidden units of each machine
     * @throws TensorException if there are fewer than two sizes, or one is less than 1
     */
    public static DeepBeliefNetwork of(VisibleUnits units, Generator generator, long... sizes) {
        if (sizes.length < 2) {
            throw TensorException.argument("deep belief network", "at least two sizes are needed, got "
                    + sizes.length, "pass the number of visible units and of each machine's hidden units");
        }
        List<Rbm> machines = new ArrayList<>();
        for (int i = 1; i < sizes.length; i++) {
            machines.add(Rbm.of(i == 1 ? units : VisibleUnits.BERNOULLI, sizes[i - 1], sizes[i], generator));
        }
        return new DeepBeliefNetwork(machines);
    }

    /** Returns the machines, starting with the one that reads the data. */
    public List<Rbm> machines() {
        return machines;
    }

    /**
     * Returns the layers to be trained one after another: each machine, trained by CD-k on the probabilities of the
     * hidden units below it. The machines below are not trained. Each layer reads the data {@code [N, visible]} and is
     * trained with {@link ContrastiveDivergence#loss}.
     *
     * @param steps k
     */
    public List<Layer> stages(int steps) {
        List<Layer> stages = new ArrayList<>();
        for (int i = 0; i < machines.size(); i++) {
            stages.add(ContrastiveDivergence.of(machines.get(i), steps).onFeatures(Sequential.of(features(0, i))));
        }
        return stages;
    }

    /**
     * Returns a classifier, {@code [N, visible]} to logits {@code [N, classes]}, which shares the machines' weights.
     */
    public Sequential classifier(long classes, Generator generator) {
        return classifier(classes, 0, generator);
    }

    /**
     * Returns a classifier as {@link #classifier(long, Generator)} does, with dropout after each machine.
     *
     * @param dropout the probability that a hidden unit is dropped, from 0 to less than 1
     * @throws TensorException if it is not in that range
     */
    public Sequential classifier(long classes, double dropout, Generator generator) {
        List<Layer> layers = new ArrayList<>();
        for (int i = 0; i < machines.size(); i++) {
            layers.addAll(features(i, i + 1));
            if (dropout != 0) {
                layers.add(new Dropout(dropout));
            }
        }
        layers.add(Linear.of(machines.getLast().hiddenBias().shape().dim(0), classes, generator));
        return Sequential.of(layers);
    }

    /** Returns machines as dense layers that share their weights. */
    private List<Layer> features(int from, int to) {
        List<Layer> layers = new ArrayList<>();
        for (Rbm machine : machines.subList(from, to)) {
            layers.add(Linear.of(machine.weight(), machine.hiddenBias()));
            layers.add(new Sigmoid());
        }
        return layers;
    }

    @Override
    public Tensor forward(Tensor v) {
        return features.forward(v);
    }

    @Override
    public void visit(Visitor visitor) {
        for (int i = 0; i < machines.size(); i++) {
            visitor.layer("machine" + i, machines.get(i));
        }
    }

    @Override
    public String toString() {
        return tree();
    }
}
