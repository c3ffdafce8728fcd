package dev.starling.samples.train;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.Augment;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.model.Networks;
import dev.starling.samples.data.Cifar10;
import dev.starling.samples.data.DataDirectory;
import dev.starling.samples.data.Mnist;
import dev.starling.samples.data.Split;
import dev.starling.samples.digits.DigitRenderer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/**
 * The properties in which the samples differ.
 *
 * @param name name on the command line
 * @param data loads or draws images
 * @param needsFiles whether images are loaded from files
 * @param training how training images are augmented and normalised
 * @param evaluation how held-out images are normalised
 * @param network creates the model
 * @param epochs default number of epochs
 * @param batchSize default batch size
 * @param rate the highest learning rate of AdamW's one-cycle schedule
 * @param precision default type in which layers compute
 * @param captured whether steps are captured by default
 * @param choice which recipe this is and why it was chosen, or {@code null} if there is no other
 * @param labels number of images used for fine-tuning; 0 for all
 * @param pretrainingRate the initial learning rate of each machine of a deep belief network
 */
record Sample(String name, Function<DataDirectory, Split> data, boolean needsFiles, Augment training,
        Augment evaluation, Function<Generator, Layer> network, int epochs, int batchSize, double rate,
        DType precision, boolean captured, String choice, int labels, double pretrainingRate) {
    private static final int DRAWN = 20_000;
    private static final int DRAWN_HELD_OUT = 5_000;
    private static final long DRAWING_SEED = 1;

    Sample(String name, Function<DataDirectory, Split> data, boolean needsFiles, Augment training,
            Augment evaluation, Function<Generator, Layer> network, int epochs, int batchSize, double rate) {
        this(name, data, needsFiles, training, evaluation, network, epochs, batchSize, rate, DType.F32, false, null,
                0, 0);
    }

    /** Digits that the sample draws itself, without files or network. */
    static Sample digits() {
        Augment plain = Augment.normalize(1, DigitRenderer.SIDE, DigitRenderer.SIDE,
                new float[] {DigitRenderer.MEAN}, new float[] {DigitRenderer.STD});
        return new Sample("digits", directory -> drawn(), false, plain, plain,
                g -> convolutional(g, 1, DigitRenderer.SIDE, 64, 16, 32), 2, 64, 4e-3);
    }

    private static Split drawn() {
        DigitRenderer renderer = new DigitRenderer(DRAWING_SEED);
        return new Split(renderer.images(0, DRAWN), renderer.images(DRAWN, DRAWN_HELD_OUT));
    }

    /** Handwritten digits with 60,000 training images. (LeCun et al., 1998) */
    static Sample mnist() {
        Augment plain = Augment.normalize(1, Mnist.SIDE, Mnist.SIDE, new float[] {Mnist.MEAN}, new float[] {Mnist.STD});
        return new Sample("mnist", Mnist::load, true, plain.randomCrop(2), plain,
                g -> convolutional(g, 1, Mnist.SIDE, 128, 32, 64), 3, 128, 4e-3);
    }

    /** Small colour photographs of ten classes with 50,000 training images. (Krizhevsky, 2009) */
    static Sample cifar10() {
        Augment plain = Augment.normalize(3, 32, 32, Cifar10.mean(), Cifar10.std());
        return new Sample("cifar10", Cifar10::load, true, plain.randomCrop(4).randomFlip(), plain,
                g -> convolutional(g, 3, 32, 256, 32, 64, 128), 10, 128, 3e-3);
    }

    /**
     * CIFAR-10 with one of two recipes. The fast recipe is made for GPUs: a residual network of about two million
     * weights with larger batches (after Page's ResNet-9 of 2018, half as wide); on a GPU in bf16, with captured steps.
     *
     * @param fast whether to use the fast recipe; {@code null} to use it on a GPU
     */
    static Sample cifar10(Boolean fast, boolean onGpu) {
        Sample plain = cifar10();
        if (fast == null ? !onGpu : !fast) {
            return plain;
        }
        return new Sample(plain.name, plain.data, true, plain.training, plain.evaluation,
                g -> Networks.resnet9(g, 10, 32), 8, 512, 6e-3, onGpu ? DType.BF16 : DType.F32, onGpu,
                "ResNet-9: " + (fast == null ? "the device is a GPU (--no-fast for the CPU's network)"
                        : "requested by --fast"), 0, 0);
    }

    private static void addNormalised(List<Layer> layers, long in, long out, Generator generator) {
        layers.add(Conv2d.of(in, out, 3).padding(1).withoutBias().build(generator));
        layers.add(BatchNorm.of(out));
        layers.add(new Relu());
    }

    /**
     * Returns a network with a stage of two normalised 3×3 convolutions and a pool for each width, and two dense
     * layers.
     */
    private static Layer convolutional(Generator generator, long channels, long side, long dense, long... widths) {
        List<Layer> layers = new ArrayList<>();
        long in = channels;
        long size = side;
        for (long width : widths) {
            for (int i = 0; i < 2; i++) {
                addNormalised(layers, in, width, generator);
                in = width;
            }
            layers.add(MaxPool2d.of(2));
            size /= 2;
        }
        layers.add(new Flatten());
        layers.add(Linear.of(in * size * size, dense, generator));
        layers.add(new Relu());
        layers.add(new Dropout(0.25));
        layers.add(Linear.of(dense, 10, generator));
        return Sequential.of(layers);
    }
}
