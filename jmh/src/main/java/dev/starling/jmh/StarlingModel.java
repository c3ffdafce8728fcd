package dev.starling.jmh;

import dev.starling.autograd.Gradients;
import dev.starling.autograd.Tape;
import dev.starling.nn.Layer;
import dev.starling.nn.Mode;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Gelu;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Lstm;
import dev.starling.nn.layer.MultiHeadAttention;
import dev.starling.nn.layer.Residual;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.AdamW;
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

    /** Builds a network with reproducible initial weights, trained by SGD with momentum. */
    public StarlingModel(Model model) {
        this(model, Update.SGD, Update.SGD.rate());
    }

    /** Builds a network with reproducible initial weights. */
    public StarlingModel(Model model, Update update, double rate) {
        network = switch (model) {
            case MLP -> Networks.mlp(generator, 784, 1024, 1024, Model.CLASSES);
            case CNN -> Networks.cnn(generator, Model.CLASSES);
            case RESNET18 -> Networks.resnet18(generator, Model.CLASSES);
            case LSTM -> Sequential.of(Lstm.of(128, 256).layers(2).last().build(generator),
                Linear.of(256, Model.CLASSES, generator));
            case GPT -> gpt(generator);
        };
        optimizer = switch (update) {
            case SGD -> Sgd.over(network).rate(rate).momentum(Update.MOMENTUM).build();
            case ADAM -> Adam.over(network).rate(rate).betas(Update.BETA1, Update.BETA2).epsilon(Update.EPSILON)
                .build();
            case ADAMW -> AdamW.over(network).rate(rate).betas(Update.BETA1, Update.BETA2).epsilon(Update.EPSILON)
                .weightDecay(Update.DECAY).build();
        };
    }

    private static Layer gpt(Generator generator) {
        List<Layer> layers = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            layers.add(Residual.of(Sequential.of(LayerNorm.of(128),
                    MultiHeadAttention.of(128, 4, generator).causal())));
            layers.add(Residual.of(Sequential.of(LayerNorm.of(128), Linear.of(128, 512, generator), new Gelu(true),
                    Linear.of(512, 128, generator))));
        }
        layers.addAll(List.of(LayerNorm.of(128), new Flatten(), Linear.of(128 * 128, Model.CLASSES, generator)));
        return Sequential.of(layers);
    }

    /** Returns the network, which this model owns. */
    public Layer network() {
        return network;
    }

    /** Returns the optimiser, which this model owns. */
    public Optimizer optimizer() {
        return optimizer;
    }

    /** Runs one training step: forward, mean cross-entropy, backward, update. Returns the loss before it. */
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
}
