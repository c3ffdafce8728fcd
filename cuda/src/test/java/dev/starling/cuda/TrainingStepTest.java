package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.AdamW;
import dev.starling.nn.optim.ClipByNorm;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Transfer;
import dev.starling.tensor.op.Update;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Training in which the host reads nothing before a step is queued, compared with the CPU, also with a bad batch. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class TrainingStepTest {
    private static final Device GPU = AnyGpu.device();

    private Scope scope;

    @BeforeEach
    void open() {
        scope = Scope.open();
    }

    @AfterEach
    void close() {
        scope.close();
    }

    private static Sequential model(Device device) {
        Generator random = Generator.seeded(3);
        Sequential model = Sequential.of(Embedding.of(7, 4, random), new Flatten(), Linear.of(12, 9, random),
                new Relu(), Linear.of(9, 5, random));
        model.to(device);
        return model;
    }

    private static Optimizer optimizer(Sequential model) {
        return ClipByNorm.of(AdamW.over(model).rate(0.05).build(), 0.5);
    }

    private static Tensor words(long... last) {
        long[] words = {0, 1, 2, 3, 4, 5, 6, 6, 1, 2, 3, 0};
        System.arraycopy(last, 0, words, words.length - last.length, last.length);
        return Tensor.of(words, 4, 3);
    }

    private static Tensor classes(long... last) {
        long[] classes = {4, 0, 2, 1};
        System.arraycopy(last, 0, classes, classes.length - last.length, last.length);
        return Tensor.of(classes);
    }

    private static Map<String, float[]> state(Sequential model, Optimizer optimizer) {
        Map<String, float[]> all = new LinkedHashMap<>();
        model.state().forEach((path, p) -> all.put(path, p.value().toFloats()));
        optimizer.state().forEach((path, p) -> all.put(path, p.value().toFloats()));
        return all;
    }

    @Test
    void computesTheCpusLosses() {
        double[][] losses = new double[2][8];
        for (int d = 0; d < 2; d++) {
            Sequential model = model(d == 0 ? Device.cpu() : GPU);
            try (Optimizer optimizer = optimizer(model);
                    TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(1))) {
                for (int i = 0; i < losses[d].length; i++) {
                    losses[d][i] = step.run(words(i % 7), classes());
                }
                assertThat(optimizer.steps()).isEqualTo(losses[d].length);
            }
            model.close();
        }
        assertThat(losses[1]).containsExactly(losses[0], within(1e-4));
        assertThat(losses[0][7]).isLessThan(losses[0][0] / 2);
    }

    @Test
    void readsNothingBeforeTheLastUpdateIsQueued() {
        Sequential model = model(GPU);
        List<String> seen = new ArrayList<>();
        Interceptor watcher = new Interceptor() {
            @Override
            public void onOperation(Op op, Tensor[] inputs, Tensor[] outputs) {
                if (op instanceof Update) {
                    seen.add("update");
                } else if (op instanceof Transfer && outputs[0].device() == Device.cpu()) {
                    seen.add("read");
                }
            }

            @Override
            public Tensor allocate(Spec spec, long[] strides) {
                return null;
            }

            @Override
            public void onRead(Tensor tensor) {
            }
        };
        try (Optimizer optimizer = Sgd.over(model).momentum(0.9).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(1))) {
            Interceptor.with(watcher, () -> step.run(words(), classes()));
            assertThat(seen).containsExactly("update", "update", "update", "update", "update", "read",
                    "read");
        }
        model.close();
    }

    /** Runs a step that must fail and change nothing, then one that must change everything. */
    private static TensorException failsOnce(Tensor input, Tensor target, float poison) {
        Sequential model = model(GPU);
        try (Optimizer optimizer = optimizer(model);
                TrainingStep step = new TrainingStep(model, (y, t) -> Loss.crossEntropy().of(y, t).mul(poison),
                        optimizer, Generator.seeded(1));
                TrainingStep sound = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(1))) {
            sound.run(words(), classes());
            Map<String, float[]> before = state(model, optimizer);
            TensorException[] failure = new TensorException[1];
            assertThatThrownBy(() -> step.run(input, target)).isInstanceOfSatisfying(TensorException.class,
                    e -> failure[0] = e);
            Map<String, float[]> after = state(model, optimizer);
            before.forEach((path, elements) -> assertThat(after.get(path)).as(path).isEqualTo(elements));
            assertThat(optimizer.steps()).isEqualTo(1);
            sound.run(words(), classes());
            assertThat(optimizer.steps()).isEqualTo(2);
            Map<String, float[]> last = state(model, optimizer);
            before.forEach((path, elements) -> assertThat(last.get(path)).as(path).isNotEqualTo(elements));
            return failure[0];
        } finally {
            model.close();
        }
    }

    @Test
    void leavesEverythingAfterALossThatIsNotFinite() {
        TensorException e = failsOnce(words(), classes(), Float.NaN);
        assertThat(e.problem()).isEqualTo(TensorException.Problem.ANOMALY);
        assertThat(e.op()).isEqualTo("training step");
    }

    @Test
    void leavesEverythingAfterGradientsThatAreNotFinite() {
        // The loss is 1e38; the squares of its gradients are infinite.
        TensorException e = failsOnce(words(), classes(), 1e38f);
        assertThat(e.problem()).isEqualTo(TensorException.Problem.ANOMALY);
        assertThat(e.op()).isEqualTo("optimizer step");
    }

    @Test
    void leavesEverythingAfterABadIndex() {
        TensorException e = failsOnce(words(7, 1), classes(), 1);
        assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX);
        assertThat(e).hasMessageContaining("take").hasMessageContaining("index 7 at position 10");
    }

    @Test
    void leavesEverythingAfterABadClass() {
        TensorException e = failsOnce(words(), classes(5), 1);
        assertThat(e.problem()).isEqualTo(TensorException.Problem.INDEX);
        assertThat(e).hasMessageContaining("index 5 at position 3 must lie between 0 and 4");
    }
}
