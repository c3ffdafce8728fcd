package dev.starling.nn.model;

import dev.starling.nn.Layer;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.GlobalAvgPool;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.tensor.Generator;
import java.util.ArrayList;
import java.util.List;

/** Well-known networks, as a starting point and for benchmarks. All return logits {@code [N, classes]}. */
public final class Networks {
    private static final int STAGE_BLOCKS = 2;

    private Networks() {
    }

    /** A perceptron {@code [N, sizes[0]]} with rectified hidden layers, for example {@code 784, 1024, 1024, 10}. */
    public static Sequential mlp(Generator generator, long... sizes) {
        List<Layer> layers = new ArrayList<>();
        for (int i = 1; i < sizes.length; i++) {
            layers.add(Linear.of(sizes[i - 1], sizes[i], generator));
            if (i < sizes.length - 1) {
                layers.add(new Relu());
            }
        }
        return Sequential.of(layers);
    }

    /** A small convolutional network for {@code [N, 3, 32, 32]}: convolutions 32, 32, pool, 64, 64, pool, dense 512. */
    public static Sequential cnn(Generator generator, long classes) {
        return Sequential.of(
                same(3, 32, generator), new Relu(), same(32, 32, generator), new Relu(), MaxPool2d.of(2),
                same(32, 64, generator), new Relu(), same(64, 64, generator), new Relu(), MaxPool2d.of(2),
                new Flatten(), Linear.of(64 * 8 * 8, 512, generator), new Relu(), Linear.of(512, classes, generator));
    }

    private static Conv same(long in, long out, Generator generator) {
        return Conv2d.of(in, out, 3).padding(1).build(generator);
    }

    /**
     * ResNet-18 in its form for {@code [N, 3, 32, 32]}: a 3×3 stem of 64 channels without pooling, four stages of two
     * basic blocks with 64, 128, 256 and 512 channels, global average pooling. (He et al., 2015, section 4.2 and table
     * 1)
     */
    public static Sequential resnet18(Generator generator, long classes) {
        return resnet18(generator, classes, 64);
    }

    /** {@link #resnet18(Generator, long)} with another number of channels in its stem, which each stage doubles. */
    public static Sequential resnet18(Generator generator, long classes, long width) {
        List<Layer> layers = new ArrayList<>(List.of(bare(3, width, 3, 1, generator), BatchNorm.of(width),
                new Relu()));
        long in = width;
        for (long out : new long[] {width, 2 * width, 4 * width, 8 * width}) {
            for (int i = 0; i < STAGE_BLOCKS; i++) {
                layers.add(block(in, out, in == out ? 1 : 2, generator));
                layers.add(new Relu());
                in = out;
            }
        }
        layers.add(new GlobalAvgPool());
        layers.add(Linear.of(8 * width, classes, generator));
        return Sequential.of(layers);
    }

    /**
     * A residual network for {@code [N, 3, 32, 32]} that trains quickly: normalised 3×3 convolutions of {@code width},
     * 2, 4 and 8 times as many channels, pooling after the last three, residual blocks after the second and fourth.
     * With a width of 32 it is half as wide as Page's ResNet-9 of 2018.
     */
    public static Sequential resnet9(Generator generator, long classes, long width) {
        List<Layer> layers = new ArrayList<>();
        normalised(layers, 3, width, generator);
        normalised(layers, width, 2 * width, generator);
        layers.add(MaxPool2d.of(2));
        layers.add(plainBlock(2 * width, generator));
        normalised(layers, 2 * width, 4 * width, generator);
        layers.add(MaxPool2d.of(2));
        normalised(layers, 4 * width, 8 * width, generator);
        layers.add(MaxPool2d.of(2));
        layers.add(plainBlock(8 * width, generator));
        layers.addAll(List.of(MaxPool2d.of(4), new Flatten(), Linear.of(8 * width, classes, generator)));
        return Sequential.of(layers);
    }

    private static Layer plainBlock(long width, Generator generator) {
        List<Layer> body = new ArrayList<>();
        normalised(body, width, width, generator);
        normalised(body, width, width, generator);
        return Residual.of(Sequential.of(body));
    }

    private static void normalised(List<Layer> layers, long in, long out, Generator generator) {
        layers.add(bare(in, out, 3, 1, generator));
        layers.add(BatchNorm.of(out));
        layers.add(new Relu());
    }

    private static Layer block(long in, long out, int stride, Generator generator) {
        Sequential body = Sequential.of(bare(in, out, 3, stride, generator), BatchNorm.of(out), new Relu(),
                bare(out, out, 3, 1, generator), BatchNorm.of(out));
        return in == out ? Residual.of(body)
                : Residual.of(body, Sequential.of(bare(in, out, 1, stride, generator), BatchNorm.of(out)));
    }

    private static Conv bare(long in, long out, int kernel, int stride, Generator generator) {
        return Conv2d.of(in, out, kernel).stride(stride).padding(kernel / 2).withoutBias().build(generator);
    }
}
