package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.autograd.Tape;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.concurrent.Callable;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Layers in forks of a structured scope, which inherit the training mode but not the tape. */
@Timeout(60)
class ForkedStepTest {
    /** A layer that computes in a fork what {@code inFork} makes of its own layer. */
    private record Forked(Layer layer, UnaryOperator<Layer> inFork) implements Layer {
        @Override
        public Tensor forward(Tensor x) {
            return x.add(fork(() -> inFork.apply(layer).forward(x)));
        }

        @Override
        public void visit(Visitor visitor) {
            visitor.layer("layer", layer);
        }
    }

    /** Runs {@code body} in a fork; by reflection, because the interface is a preview of this JDK. */
    private static <T> T fork(Callable<T> body) {
        try {
            Class<?> type = Class.forName("java.util.concurrent.StructuredTaskScope");
            try (AutoCloseable scope = (AutoCloseable) type.getMethod("open").invoke(null)) {
                Object fork = type.getMethod("fork", Callable.class).invoke(scope, (Callable<Object>) () -> {
                    try {
                        return body.call();
                    } catch (TensorException e) {
                        return e;
                    }
                });
                type.getMethod("join").invoke(scope);
                Object result = Class.forName(type.getName() + "$Subtask").getMethod("get").invoke(fork);
                if (result instanceof TensorException e) {
                    throw e;
                }
                @SuppressWarnings("unchecked")
                T cast = (T) result;
                return cast;
            }
        } catch (TensorException e) {
            throw e;
        } catch (Exception e) {
            throw new AssertionError(e);
        }
    }

    private static void train(Layer model) {
        Generator g = Generator.seeded(1);
        try (DataLoader data = DataLoader.of(TensorDataset.of(g.normal(20, 4), g.integers(0, 4, 20))).batchSize(10)
                .workers(1).build(); Optimizer sgd = Sgd.over(model).rate(0.1).build()) {
            Trainer.of(model, Loss.crossEntropy(), sgd).data(data).heldOut(data).epochs(1).build().run();
        }
    }

    private static Sequential model(UnaryOperator<Layer> inFork) {
        Generator g = Generator.seeded(2);
        return Sequential.of(Linear.of(4, 4, g), new Forked(Linear.of(4, 4, g), inFork));
    }

    @Test
    void aStepIsComputedOnOneThread() {
        assertThatThrownBy(() -> train(model(layer -> layer))).isInstanceOf(TensorException.class)
                .hasMessageContaining("a fork of Thread")
                .hasMessageContaining("no gradient would pass through the fork")
                .hasMessageContaining("compute a training step on one thread");
    }

    @Test
    void forksComputeWithoutGradients() {
        train(model(layer -> x -> Mode.inference(() -> layer.forward(x))));
    }

    /** What is before the frozen layer would get no gradient. */
    @Test
    void aFrozenLayerIsNoExcuse() {
        Sequential frozen = model(layer -> layer);
        frozen.freeze(path -> path.startsWith("1."));
        assertThatThrownBy(() -> train(frozen)).isInstanceOf(TensorException.class)
                .hasMessageContaining("call Mode.inference in the fork");
    }

    @Test
    void forksComputeWhereNothingIsRecorded() {
        Generator g = Generator.seeded(3);
        Layer layer = Linear.of(4, 4, g);
        Tensor x = g.normal(2, 4);
        float[] expected = layer.forward(x).toFloats();
        assertThat(fork(() -> layer.forward(x).toFloats())).containsExactly(expected);
        assertThat(Mode.training(g, () -> fork(() -> layer.forward(x).toFloats()))).containsExactly(expected);
    }

    @Test
    void aForkMayHaveATapeOfItsOwn() {
        Generator g = Generator.seeded(3);
        Linear layer = Linear.of(4, 4, g);
        Tensor x = g.normal(2, 4);
        Tensor weight = layer.state().get("weight").value();
        float[] gradient = Mode.training(g, () -> new Tape().record(() -> fork(() -> {
            Tape tape = new Tape().watch(weight);
            return tape.backward(tape.record(() -> layer.forward(x).sum())).of(weight).toFloats();
        })));
        Tape tape = new Tape().watch(weight);
        assertThat(gradient).containsExactly(tape.backward(tape.record(() -> layer.forward(x).sum())).of(weight)
                .toFloats());
    }
}
