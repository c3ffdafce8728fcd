package dev.starling.jmh.pytorch;

import static dev.starling.jmh.pytorch.LayerBuilder.FLATTEN;
import static dev.starling.jmh.pytorch.LayerBuilder.GELU;
import static dev.starling.jmh.pytorch.LayerBuilder.GLOBAL_AVERAGE;
import static dev.starling.jmh.pytorch.LayerBuilder.MAX_POOL;
import static dev.starling.jmh.pytorch.LayerBuilder.RELU;

import dev.starling.jmh.Model;
import dev.starling.jmh.Update;
import dev.starling.jmh.pytorch.TorchModel.Layer;
import dev.starling.jmh.pytorch.TorchModel.Layout;
import org.bytedeco.javacpp.PointerScope;

/** Builds the networks to compare with PyTorch. */
public final class TorchModels {
    private TorchModels() {
    }

    /** Builds a network with reproducible initial weights, for the caller to close. */
    public static TorchModel create(Model model, Layout layout, Update update, double rate) {
        return create(model, new LayerBuilder(layout, false), update, rate);
    }

    /** Builds a network for inference, with biases in place of batch norms, for the caller to close. */
    public static TorchModel folded(Model model, Layout layout) {
        return create(model, new LayerBuilder(layout, true), Update.SGD, 0);
    }

    private static TorchModel create(Model model, LayerBuilder layers, Update update, double rate) {
        try (PointerScope temporaries = new PointerScope()) {
            Layer network = switch (model) {
                case MLP -> mlp(layers);
                case CNN -> cnn(layers);
                case RESNET18 -> resnet18(layers);
                case LSTM -> layers.lstm(128, 256, 2).then(layers.linear(256, Model.CLASSES));
                case GPT -> gpt(layers);
            };
            return new TorchModel(layers, network, update, rate);
        }
    }

    private static Layer mlp(LayerBuilder layers) {
        return layers.linear(784, 1024).then(RELU)
            .then(layers.linear(1024, 1024)).then(RELU)
            .then(layers.linear(1024, 10));
    }

    private static Layer cnn(LayerBuilder layers) {
        return layers.convolution(3, 32, 3, 1, true).then(RELU)
            .then(layers.convolution(32, 32, 3, 1, true)).then(RELU).then(MAX_POOL)
            .then(layers.convolution(32, 64, 3, 1, true)).then(RELU)
            .then(layers.convolution(64, 64, 3, 1, true)).then(RELU).then(MAX_POOL)
            .then(FLATTEN)
            .then(layers.linear(4096, 512)).then(RELU)
            .then(layers.linear(512, 10));
    }

    private static Layer gpt(LayerBuilder layers) {
        Layer network = input -> input;
        for (int i = 0; i < 4; i++) {
            network = network.then(layers.residual(128, layers::attention))
                .then(layers.residual(128, width -> layers.linear(width, 512).then(GELU)
                    .then(layers.linear(512, width))));
        }
        return network.then(layers.layerNorm(128)).then(FLATTEN).then(layers.linear(128 * 128, Model.CLASSES));
    }

    private static Layer resnet18(LayerBuilder layers) {
        Layer network = layers.convolution(3, 64, 3, 1, false).then(layers.batchNorm(64)).then(RELU);
        int channels = 64;
        for (int width : new int[] {64, 128, 256, 512}) {
            network = network.then(layers.residualBlock(channels, width, width == channels ? 1 : 2))
                .then(layers.residualBlock(width, width, 1));
            channels = width;
        }
        return network.then(GLOBAL_AVERAGE).then(FLATTEN).then(layers.linear(512, 10));
    }
}
