package dev.starling.nn;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.autograd.Tape;
import dev.starling.nn.checkpoint.SafeTensors;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.optim.Sgd;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Models whose kernels keep packed weights compute with the current weights, as a new model with the same ones. */
class KeptFormsTest {
    private final Scope scope = Scope.open("test");
    private final Generator random = Generator.seeded(5);
    private final Tensor x = random.normal(2, 32, 11, 11);
    private final Layer model = model(1);

    @AfterEach
    void close() {
        model.close();
        scope.close();
    }

    /** One convolution by Winograd's algorithm, one direct, and dense layers whose weights are worth packing. */
    private static Layer model(long seed) {
        Generator random = Generator.seeded(seed);
        return Sequential.of(Conv2d.of(32, 32, 3).padding(1).build(random), new Relu(),
                Conv2d.of(32, 48, 3).stride(2).build(random), new Relu(), new Flatten(),
                Linear.of(48 * 25, 64, random), new Relu(), Linear.of(64, 300, random));
    }

    private void isCurrent() {
        try (Layer fresh = model(2); Scope inner = Scope.open("inner")) {
            Map<String, Parameter> current = model.state();
            fresh.state().forEach((name, p) -> p.set(current.get(name).master()));
            float[] expected = fresh.forward(x).toFloats();
            for (int i = 0; i < 3; i++) {
                assertThat(model.forward(x).toFloats()).isEqualTo(expected);
            }
        }
    }

    @Test
    void afterSteps() {
        try (var optimizer = Sgd.over(model).rate(0.1).momentum(0.9).build()) {
            for (int i = 0; i < 4; i++) {
                isCurrent();
                try (Scope step = Scope.open("step")) {
                    Tape tape = new Tape();
                    tape.watch(optimizer.watched());
                    Tensor loss = tape.record(() -> model.forward(x).square().mean());
                    optimizer.step(tape.backward(loss));
                }
            }
            isCurrent();
        }
    }

    @Test
    void afterLoading() {
        isCurrent();
        byte[] saved = SafeTensors.bytes(model.state(), Map.of());
        isCurrent();
        try (Scope inner = Scope.open("change")) {
            model.state().values().forEach(p -> p.set(random.normal(p.shape().dims())));
        }
        isCurrent();
        try (SafeTensors file = SafeTensors.of(saved)) {
            file.into(model.state());
        }
        isCurrent();
    }
}
