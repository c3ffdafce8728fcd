package dev.starling.spark;

import dev.starling.nn.Layer;
import dev.starling.nn.energy.DeepBeliefNetwork;
import dev.starling.nn.energy.GreedyTraining;
import dev.starling.nn.energy.VisibleUnits;
import dev.starling.nn.model.ModelFactory;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Schedule;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;

/**
 * A stack of restricted Boltzmann machines below a classifier: with {@link SparkTrainer#pretraining} each machine is
 * trained without labels on the hidden units of the one below, then all of them as a network.
 *
 * <pre>{@code
 * SparkTrainer.of(ModelDescription.of(DeepBelief.class, Map.of("sizes", "784,500,500,2000,10", "scale", "255")),
 *                 Loss::crossEntropy, DeepBelief.adam(5e-3, 2e-3))
 *         .inputs("pixels").classes("label").pretraining(5).epochs(15).batchSize(100)
 *         .strategy(Strategy.gossipAfterEachPass()).fit(frame);
 * }</pre>
 *
 * <p>Settings: {@code sizes}, the numbers of visible units, of the hidden units of each machine, and of classes;
 * {@code scale}, by which inputs are divided, 1 by default; {@code units}, {@code bernoulli} (inputs from 0 to 1, the
 * default) or {@code gaussian}; {@code dropout} after each machine in fine-tuning, 0.2 by default; {@code steps} of
 * contrastive divergence, 1 by default.
 */
public final class DeepBelief implements ModelFactory {
    /** Below the usual value: gradients of contrastive divergence are larger than later ones and must decay soon. */
    private static final double BETA2 = 0.95;

    /** Called by reflection. */
    public DeepBelief() {
    }

    @Override
    public Layer create(Map<String, String> settings, Generator generator) {
        String text = settings.getOrDefault("sizes", "");
        if (!text.matches("\\s*\\d{1,9}\\s*(,\\s*\\d{1,9}\\s*){2,}")) {
            throw new IllegalArgumentException("sizes must be three or more numbers, such as 784,500,500,2000,10; got "
                    + settings.get("sizes"));
        }
        long[] sizes = Arrays.stream(text.split(",")).map(String::strip).mapToLong(Long::parseLong).toArray();
        String units = settings.getOrDefault("units", "bernoulli");
        double scale = number(settings, "scale", 1);
        double steps = number(settings, "steps", 1);
        if (!(scale > 0) || !(steps >= 1) || steps != Math.rint(steps) || !units.matches("bernoulli|gaussian")) {
            throw new IllegalArgumentException("scale > 0, a whole number of steps >= 1, and units bernoulli or "
                    + "gaussian must hold; got " + scale + ", " + steps + " and " + units);
        }
        DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.valueOf(units.toUpperCase(Locale.ROOT)),
                generator, Arrays.copyOf(sizes, sizes.length - 1));
        Layer classifier = network.classifier(sizes[sizes.length - 1], number(settings, "dropout", 0.2), generator);
        return new Network(network, classifier, (float) (1 / scale), (int) steps);
    }

    private static double number(Map<String, String> settings, String name, double otherwise) {
        String text = settings.get(name);
        try {
            return text == null ? otherwise : Double.parseDouble(text);
        } catch (NumberFormatException e) {
            throw new IllegalArgumentException(name + " must be a number, got " + text, e);
        }
    }

    /**
     * Returns Adam for both parts of the training.
     *
     * @param pretrainingRate the rate at the start of each machine; it decreases to 0 along half a cosine
     * @param rate the maximum of fine-tuning's one-cycle schedule
     */
    public static OptimizerFactory adam(double pretrainingRate, double rate) {
        return (model, steps) -> {
            if (!(model instanceof Network network)) {
                throw new IllegalArgumentException("DeepBelief.adam is for models that DeepBelief creates");
            }
            GreedyTraining greedy = network.greedy;
            long pass = Math.max(1, steps / Math.max(1, network.epochs));
            Schedule machine = Schedule.cosine(pretrainingRate, 0, Math.max(1, greedy.epochsOfEach() * pass));
            Schedule cycle = Schedule.oneCycle(rate, Math.max(2, steps - greedy.pretrainingEpochs() * pass));
            return Adam.over(model).rate(greedy.schedule(machine, cycle, pass)).betas(0.9, BETA2).build();
        };
    }

    /** The network: a classifier, unless {@link #pretrain} was called. */
    static final class Network implements Layer {
        private final DeepBeliefNetwork network;
        private final Layer classifier;
        private final float scale;
        private final int steps;
        private GreedyTraining greedy;
        private int epochs = 1;

        Network(DeepBeliefNetwork network, Layer classifier, float scale, int steps) {
            this.network = network;
            this.classifier = classifier;
            this.scale = scale;
            this.steps = steps;
            greedy = GreedyTraining.of(network, classifier, steps, 0);
        }

        int machines() {
            return network.machines().size();
        }

        /** Prepares a run of {@code all} epochs, of which the first ones pre-train the machines. */
        GreedyTraining pretrain(int epochsOfEach, int all) {
            epochs = all;
            greedy = GreedyTraining.of(network, classifier, steps, epochsOfEach);
            return greedy;
        }

        @Override
        public Tensor forward(Tensor x) {
            return greedy.forward(scale == 1 ? x : x.mul(scale));
        }

        @Override
        public void visit(Visitor visitor) {
            greedy.visit(visitor);
        }
    }
}
