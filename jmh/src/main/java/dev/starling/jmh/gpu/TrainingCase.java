package dev.starling.jmh.gpu;

import dev.starling.jmh.Case;
import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Gpt2;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;

/** Training steps on one batch. */
final class TrainingCase implements Case {
    private final Layer model;
    private final Optimizer optimizer;
    private final Scope batch;
    private final Tensor input;
    private final Tensor target;
    private final TrainingStep step;

    private TrainingCase(Layer model, Optimizer optimizer, Loss loss, Scope batch, Tensor input, Tensor target,
            Precision precision, boolean captured) {
        this.model = model;
        this.optimizer = optimizer;
        this.batch = batch;
        this.input = input;
        this.target = target;
        step = new TrainingStep(model, loss, optimizer, Generator.seeded(3)).precision(precision);
        if (captured) {
            step.captured();
        }
    }

    /**
     * Makes a network and a batch on the current device.
     *
     * @param sizes mlp: batch, width; resnet9: batch, width; resnet18: batch, width, side; gpt2: batch,
     *     length, width, depth, heads, vocabulary
     */
    static TrainingCase of(String network, DType type, long[] sizes, boolean captured) {
        Generator generator = Generator.seeded(5);
        Scope batch = Scope.open("batch");
        if (network.equals("gpt2")) {
            Layer model = Gpt2.of(sizes[5], sizes[1], sizes[2], (int) sizes[3], (int) sizes[4], generator);
            Tensor text = integers(generator, sizes[5], sizes[0], sizes[1] + 1);
            return new TrainingCase(model, AdamW.over(model).rate(3e-4).build(), Loss.crossEntropyOfLast(), batch,
                    text.narrow(1, 0, sizes[1]).contiguous(), text.narrow(1, 1, sizes[1]).contiguous(),
                    Precision.of(type), captured);
        }
        if (network.equals("resnet9")) {
            Layer model = Networks.resnet9(generator, 10, sizes[1]);
            return new TrainingCase(model, AdamW.over(model).rate(6e-3).build(), Loss.crossEntropy(), batch,
                    generator.uniform(sizes[0], 3, 32, 32), integers(generator, 10, sizes[0]), Precision.of(type),
                    captured);
        }
        boolean mlp = network.equals("mlp");
        Layer model = mlp ? Networks.mlp(generator, 784, sizes[1], sizes[1], 10)
                : Networks.resnet18(generator, 10, sizes[1]);
        Tensor input = mlp ? generator.uniform(sizes[0], 784) : generator.uniform(sizes[0], 3, sizes[2], sizes[2]);
        return new TrainingCase(model, Sgd.over(model).rate(0.01).momentum(0.9).build(), Loss.crossEntropy(), batch,
                input, integers(generator, 10, sizes[0]), Precision.of(type), captured);
    }

    private static Tensor integers(Generator generator, long high, long... shape) {
        return generator.integers(new Spec(DType.I64, Shape.of(shape), Device.current()), 0, high);
    }

    @Override
    public void run() {
        step.run(input, target);
    }

    @Override
    public void close() {
        step.close();
        batch.close();
        optimizer.close();
        model.close();
    }
}
