package dev.starling.jmh.serving;

import ai.djl.Device;
import ai.djl.inference.Predictor;
import ai.djl.ndarray.NDList;
import ai.djl.ndarray.NDManager;
import ai.djl.ndarray.types.DataType;
import ai.djl.ndarray.types.Shape;
import ai.djl.nn.Activation;
import ai.djl.nn.Blocks;
import ai.djl.nn.Parameter;
import ai.djl.nn.SequentialBlock;
import ai.djl.nn.convolutional.Conv2d;
import ai.djl.nn.core.Linear;
import ai.djl.nn.pooling.Pool;
import ai.djl.training.initializer.Initializer;
import ai.djl.translate.TranslateException;
import ai.djl.translate.Translator;
import ai.djl.translate.TranslatorContext;
import dev.starling.jmh.Model;
import dev.starling.jmh.StarlingModel;
import java.util.Iterator;
import java.util.List;
import java.util.function.UnaryOperator;

/** DJL's PyTorch engine: one model, a predictor for each client's thread, as DJL's documentation recommends. */
final class DjlServer implements Server {
    private final Model architecture;
    private final ai.djl.Model model;

    /** Makes the server, whose model has the weights of {@link StarlingModel}. */
    DjlServer(Model architecture) {
        this.architecture = architecture;
        SequentialBlock block = block(architecture);
        model = ai.djl.Model.newInstance("serving", Device.cpu(), "PyTorch");
        block.setInitializer(Initializer.ZEROS, Parameter.Type.WEIGHT);
        block.initialize(model.getNDManager(), DataType.FLOAT32, new Shape(architecture.batchShape(1)));
        try (StarlingModel source = new StarlingModel(architecture)) {
            Iterator<dev.starling.nn.Parameter> weights = source.network().parameters().values().iterator();
            block.getParameters().values().forEach(p -> p.getArray().set(weights.next().value().toFloats()));
        }
        // Otherwise libtorch records each prediction for a gradient, in every thread but this one.
        block.freezeParameters(true);
        model.setBlock(block);
    }

    private static SequentialBlock block(Model architecture) {
        SequentialBlock block = new SequentialBlock();
        return switch (architecture) {
            case MLP -> block.add(linear(1024)).add(Activation.reluBlock()).add(linear(1024))
                    .add(Activation.reluBlock()).add(linear(Model.CLASSES));
            case CNN -> {
                for (int channels : List.of(32, 32, 0, 64, 64, 0)) {
                    if (channels == 0) {
                        block.add(Pool.maxPool2dBlock(new Shape(2, 2), new Shape(2, 2)));
                    } else {
                        block.add(Conv2d.builder().setKernelShape(new Shape(3, 3)).optPadding(new Shape(1, 1))
                                .setFilters(channels).build()).add(Activation.reluBlock());
                    }
                }
                yield block.add(Blocks.batchFlattenBlock()).add(linear(512)).add(Activation.reluBlock())
                        .add(linear(Model.CLASSES));
            }
            case RESNET18, LSTM, GPT -> throw new IllegalArgumentException("serving compares MLP and CNN");
        };
    }

    private static Linear linear(int units) {
        return Linear.builder().setUnits(units).build();
    }

    @Override
    public UnaryOperator<float[]> client() {
        long[] batch = architecture.batchShape(1);
        Shape example = new Shape(batch).slice(1);
        Predictor<float[], float[]> predictor = model.newPredictor(new Translator<float[], float[]>() {
            @Override
            public NDList processInput(TranslatorContext context, float[] input) {
                NDManager manager = context.getNDManager();
                return new NDList(manager.create(input, example));
            }

            @Override
            public float[] processOutput(TranslatorContext context, NDList list) {
                return list.singletonOrThrow().toFloatArray();
            }
        });
        return input -> {
            try {
                return predictor.predict(input);
            } catch (TranslateException e) {
                throw new IllegalStateException(e);
            }
        };
    }

    @Override
    public void close() {
        model.close();
    }
}
