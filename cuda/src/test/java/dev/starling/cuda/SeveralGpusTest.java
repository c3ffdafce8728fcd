package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Dropout;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Two GPUs in one process, with fake libraries and a fake driver that checks each thread's current context. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
class SeveralGpusTest {
    private static final Device FIRST = Device.of("cuda-emulated", EmulatedProvider.WITH_LIBRARIES);
    private static final Device SECOND = Device.of("cuda-emulated", EmulatedProvider.SECOND);
    private static final int IMAGES = 60;

    @AfterEach
    void librariesReportNoMisuse() {
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    private static Layer network() {
        Generator g = Generator.seeded(1);
        return Sequential.of(Conv2d.of(2, 8, 3).padding(1).build(g), BatchNorm.of(8), new Relu(), new Dropout(0.2),
                new Flatten(), Linear.of(8 * 16, 16, g), new Relu(), Linear.of(16, 3, g));
    }

    /** Trains with captured steps on uploaded batches; returns all weights. */
    private static Map<String, float[]> train(Device device, DType type) {
        try (Tensor images = Generator.seeded(2).normal(IMAGES, 2, 4, 4);
                Tensor classes = Generator.seeded(3).integers(0, 3, IMAGES)) {
            return Device.with(device, () -> train(TensorDataset.of(images, classes), type));
        }
    }

    private static Map<String, float[]> train(TensorDataset images, DType type) {
        Map<String, float[]> weights = new LinkedHashMap<>();
        try (Layer model = network(); Optimizer sgd = Sgd.over(model).rate(0.05).momentum(0.9).build();
                DataLoader data = DataLoader.of(images).batchSize(10).workers(2).shuffle().seed(4).build()) {
            Trainer.of(model, Loss.crossEntropy(), sgd).data(data).epochs(3).seed(5).captured()
                    .precision(Precision.of(type)).build().run();
            assertThat(model.state().values()).allMatch(p -> p.value().device() == Device.current());
            model.state().forEach((path, p) -> weights.put(path, p.value().toFloats()));
        }
        return weights;
    }

    private static FutureTask<Map<String, float[]>> begin(Device device, DType type) {
        FutureTask<Map<String, float[]>> task = new FutureTask<>(() -> train(device, type));
        Thread.ofPlatform().daemon().start(task);
        return task;
    }

    private static void assertSame(Map<String, float[]> actual, Map<String, float[]> expected) {
        assertThat(actual).hasSameSizeAs(expected);
        expected.forEach((path, values) -> assertThat(actual.get(path)).as(path).isEqualTo(values));
    }

    @Test
    void trainsOnTwoGpusConcurrently() throws Exception {
        Map<String, float[]> wide = train(FIRST, DType.F32);
        Map<String, float[]> narrow = train(SECOND, DType.BF16);
        for (int i = 0; i < 2; i++) {
            FutureTask<Map<String, float[]>> first = begin(FIRST, i == 0 ? DType.F32 : DType.BF16);
            FutureTask<Map<String, float[]>> second = begin(SECOND, i == 0 ? DType.BF16 : DType.F32);
            assertSame(first.get(60, TimeUnit.SECONDS), i == 0 ? wide : narrow);
            assertSame(second.get(60, TimeUnit.SECONDS), i == 0 ? narrow : wide);
        }
    }

    @Test
    void alternatesInOneThread() {
        try (Scope scope = Scope.open()) {
            Tensor x = Generator.seeded(1).normal(16, 16);
            Tensor expected = x.matmul(x).relu().sum(1);
            Tensor here = x.to(FIRST);
            for (int i = 0; i < 4; i++) {
                Tensor there = here.to(SECOND);
                assertThat(there.device()).isSameAs(SECOND);
                Tensor a = here.matmul(here);
                Tensor b = there.matmul(there);
                assertThat(b.relu().sum(1).toFloats()).isEqualTo(a.relu().sum(1).toFloats());
                assertThat(a.to(SECOND).relu().sum(1).toFloats()).containsExactly(expected.toFloats(), within(1e-3f));
                here = there.to(FIRST);
                assertThat(here.toFloats()).isEqualTo(x.toFloats());
            }
        }
    }
}
