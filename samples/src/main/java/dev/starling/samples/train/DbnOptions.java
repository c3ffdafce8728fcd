package dev.starling.samples.train;

import dev.starling.nn.Initializer;
import dev.starling.nn.Layer;
import dev.starling.nn.data.Augment;
import dev.starling.nn.energy.DeepBeliefNetwork;
import dev.starling.nn.energy.GreedyTraining;
import dev.starling.nn.energy.Rbm;
import dev.starling.nn.energy.VisibleUnits;
import dev.starling.samples.data.Mnist;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.LongStream;
import picocli.CommandLine.Option;

/** Options of the deep belief network. */
final class DbnOptions {
    private static final int STEPS = 1;

    @Option(names = "--data", paramLabel = "DIR",
            description = "Folder of MNIST's official files, downloaded if absent (default: digits that this sample "
                    + "draws itself).")
    Path data;

    @Option(names = "--layers", paramLabel = "N", split = ",",
            description = "Hidden units of each machine, starting with the one "
            + "that reads the images (default: 500,500,2000 for MNIST, 256,256 for drawn digits).")
    long[] layers;

    @Option(names = "--pretraining-epochs", paramLabel = "N",
            description = "Training epochs of each machine (default: 5 for MNIST, 2 for drawn digits).")
    Integer pretrainingEpochs;

    @Option(names = "--pretraining-rate", paramLabel = "R", defaultValue = "5e-3",
            description = "Learning rate at the start of each machine (default: ${DEFAULT-VALUE}).")
    double pretrainingRate;

    @Option(names = "--no-pretraining", description = "Train the same network only by backpropagation, from "
            + "Glorot and Bengio's initial weights.")
    boolean withoutPretraining;

    @Option(names = "--steps", paramLabel = "K", defaultValue = "" + STEPS,
            description = "Gibbs steps of contrastive divergence (default: ${DEFAULT-VALUE}).")
    int steps;

    @Option(names = "--labels", paramLabel = "N",
            description = "Fine-tune on N images, chosen by --seed; pre-training uses all (default: all).")
    Integer labels;

    @Option(names = "--dropout", paramLabel = "P", defaultValue = "0.2",
            description = "Share of hidden units dropped in fine-tuning (default: ${DEFAULT-VALUE}).")
    double dropout;

    /** Returns the message on an invalid option, or {@code null}. */
    String problem(TrainOptions options) {
        if (layers != null && Arrays.stream(layers).anyMatch(units -> units < 1)) {
            return "--layers must be positive, got " + Arrays.toString(layers);
        }
        if (pretrainingEpochs != null && pretrainingEpochs < 1) {
            return "--pretraining-epochs must be positive, got " + pretrainingEpochs + "; to skip pre-training use "
                    + "--no-pretraining";
        }
        if (!(pretrainingRate > 0 && pretrainingRate < 1)) {
            return "--pretraining-rate must be between 0 and 1, got " + pretrainingRate;
        }
        if (steps < 1) {
            return "--steps must be positive, got " + steps;
        }
        if (labels != null && labels < 1) {
            return "--labels must be positive, got " + labels + "; omit it for all";
        }
        if (!(dropout >= 0 && dropout < 1)) {
            return "--dropout must be at least 0 and less than 1, got " + dropout;
        }
        if (options.precision != null && options.precision != DType.F32) {
            return "--precision " + options.precision + ": dbn computes free energies, which need f32";
        }
        return Boolean.TRUE.equals(options.captured) || options.explain != null
                ? "--captured and --explain replay one kind of step, but dbn trains each machine with another" : null;
    }

    /** Returns the sample that these options describe. */
    Sample sample() {
        boolean drawn = data == null;
        int epochs = withoutPretraining ? 0 : pretrainingEpochs != null ? pretrainingEpochs : drawn ? 2 : 5;
        // Bernoulli units need pixels from 0 to 1.
        Augment pixels = Augment.normalize(1, Mnist.SIDE, Mnist.SIDE, new float[] {0}, new float[] {1});
        return new Sample("dbn", drawn ? Sample.digits().data() : Mnist::load, !drawn, pixels, pixels,
                generator -> network(epochs, drawn ? new long[] {256, 256} : new long[] {500, 500, 2000}, generator),
                drawn ? 4 : 15, 100, drawn ? 5e-3 : 2e-3, DType.F32, false, null, labels == null ? 0 : labels,
                pretrainingRate);
    }

    private Layer network(int epochs, long[] defaults, Generator generator) {
        long[] sizes = LongStream.concat(LongStream.of(Mnist.SIDE * Mnist.SIDE),
                LongStream.of(layers != null ? layers : defaults)).toArray();
        DeepBeliefNetwork network = DeepBeliefNetwork.of(VisibleUnits.BERNOULLI, generator, sizes);
        if (withoutPretraining) {
            for (Rbm machine : network.machines()) {
                machine.weight().set(Initializer.xavierUniform().draw(machine.weight().shape(), generator));
            }
        }
        return GreedyTraining.of(network, network.classifier(Mnist.CLASSES, dropout, generator), steps, epochs);
    }
}
