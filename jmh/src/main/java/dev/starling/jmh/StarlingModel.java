package dev.starling.jmh;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.GlobalAvgPool;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiConsumer;

/**
 * A Starling network with its optimiser. Parameters are in the order in which the network uses them, weight before
 * bias; in a residual block the projection of the shortcut comes last.
 */
public final class StarlingModel implements AutoCloseable {
    private static final BiConsumer<Optimizer, Gradients> IGNORED = (optimizer, gradients) -> { };

    private final Generator generator = Generator.seeded(42);
    private final Layer network;
    private final Optimizer optimizer;
    private final Loss loss = Loss.crossEntropy();
    private final Tape tape = new Tape();

    /** Builds a network with reproducible initial weights. */
    public StarlingModel(Model model, double learningRate) {
        network = switch (model) {
            case MLP -> mlp();
            case CNN -> cnn();
            case RESNET18 -> resnet18();
        };
        optimizer = Sgd.over(network).rate(learningRate).momentum(Model.MOMENTUM).build();
    }

    /** Returns the network, which this model owns. */
    public Layer network() {
        return network;
    }

    /** Returns the optimiser, which this model owns. */
    public Optimizer optimizer() {
        return optimizer;
    }

    /** Runs one training step: forward, mean cross-entropy, backward, SGD with momentum. Returns the loss before it. */
    float step(Tensor batch, Tensor labels) {
        return step(batch, labels, IGNORED);
    }

    /** Runs one training step and passes the gradients to a listener before the optimiser uses them. */
    float step(Tensor batch, Tensor labels, BiConsumer<Optimizer, Gradients> onGradients) {
        return Mode.training(generator, () -> {
            try (Scope step = Scope.open("step")) {
                tape.reset().watch(optimizer.watched());
                Tensor value = tape.record(() -> loss.of(network.forward(batch), labels));
                Gradients gradients = tape.backward(value);
                onGradients.accept(optimizer, gradients);
                optimizer.step(gradients);
                return (float) value.item();
            }
        });
    }

    /** Returns copies of all parameters. */
    List<float[]> parameters() {
        return network.parameters().values().stream().map(parameter -> parameter.value().toFloats()).toList();
    }

    /** Sets all parameters from arrays in the order of {@link #parameters()}. */
    void parameters(List<float[]> values) {
        List<Parameter> parameters = List.copyOf(network.parameters().values());
        if (values.size() != parameters.size()) {
            throw new IllegalArgumentException(
                "the network has " + parameters.size() + " parameters, got " + values.size() + " arrays");
        }
        try (Scope copies = Scope.open("parameters")) {
            for (int i = 0; i < values.size(); i++) {
                Parameter parameter = parameters.get(i);
                parameter.set(Tensor.of(values.get(i), parameter.shape().dims()));
            }
        }
    }

    /** Returns copies of the running statistics of the batch norms: for each the mean, then the variance. */
    List<float[]> statistics() {
        return network.state().values().stream().filter(Parameter::isBuffer)
            .map(parameter -> parameter.value().toFloats()).toList();
    }

    @Override
    public void close() {
        optimizer.close();
        network.close();
    }

    private Layer mlp() {
        return Sequential.of(
            Linear.of(784, 1024, generator), new Relu(),
            Linear.of(1024, 1024, generator), new Relu(),
            Linear.of(1024, Model.CLASSES, generator));
    }

    private Layer cnn() {
        return Sequential.of(
            convolution(3, 32), new Relu(), convolution(32, 32), new Relu(), MaxPool2d.of(2),
            convolution(32, 64), new Relu(), convolution(64, 64), new Relu(), MaxPool2d.of(2),
            new Flatten(),
            Linear.of(4096, 512, generator), new Relu(),
            Linear.of(512, Model.CLASSES, generator));
    }

    private Layer convolution(int inputs, int outputs) {
        return Conv2d.of(inputs, outputs, 3).padding(1).build(generator);
    }

    private Layer resnet18() {
        List<Layer> layers = new ArrayList<>(List.of(unbiased(3, 64, 3, 1), BatchNorm.of(64), new Relu()));
        int channels = 64;
        for (int width : new int[] {64, 128, 256, 512}) {
            layers.addAll(List.of(block(channels, width, width == channels ? 1 : 2), new Relu()));
            layers.addAll(List.of(block(width, width, 1), new Relu()));
            channels = width;
        }
        layers.addAll(List.of(new GlobalAvgPool(), Linear.of(channels, Model.CLASSES, generator)));
        return Sequential.of(layers);
    }

    private Layer block(int inputs, int outputs, int stride) {
        Layer body = Sequential.of(
            unbiased(inputs, outputs, 3, stride), BatchNorm.of(outputs), new Relu(),
            unbiased(outputs, outputs, 3, 1), BatchNorm.of(outputs));
        return stride == 1 && inputs == outputs
            ? Residual.of(body)
            : Residual.of(body, Sequential.of(unbiased(inputs, outputs, 1, stride), BatchNorm.of(outputs)));
    }

    private Layer unbiased(int inputs, int outputs, int kernel, int stride) {
        return Conv2d.of(inputs, outputs, kernel).stride(stride).padding(kernel / 2).withoutBias().build(generator);
    }
}
