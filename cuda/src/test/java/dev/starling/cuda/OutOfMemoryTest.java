package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.gpu.Gpu;
import dev.starling.nn.Layer;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.model.Networks;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Memory runs out in the middle of a step. On a real GPU the test allocates nearly all of it. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class OutOfMemoryTest {
    private static final Device DEVICE = AnyGpu.devices().getFirst();
    private static final boolean REAL = DEVICE.type().equals("cuda");
    private static final int SMALL = 4;
    /** Its activations take separate blocks of 1 MiB and more; on a real GPU 25 MiB and more. */
    private static final int LARGE = REAL ? 1 << 16 : 4096;
    private static final int IN = 65;
    private static final long BLOCK = REAL ? 8L << 20 : 5L << 18;
    /** The smallest of the pieces that occupy a real GPU's memory. */
    private static final long MIN_PIECE = 2L << 20;

    private boolean captured;
    private final List<Long> ballast = new ArrayList<>();

    /** Limits the memory that is left. */
    private void limitMemory(long bytes) {
        if (!REAL) {
            AnyGpu.limitMemory(bytes);
            return;
        }
        Gpu gpu = ((CudaBackend) DEVICE.backend()).gpu();
        for (long piece = 64L << 30; piece >= MIN_PIECE; piece /= 2) {
            while (gpu.freeBytes() >= bytes + piece) {
                long address = gpu.allocate(piece);
                if (address == 0) {
                    break;
                }
                ballast.add(address);
            }
        }
    }

    @AfterEach
    void unlimitMemory() {
        if (REAL) {
            ballast.forEach(((CudaBackend) DEVICE.backend()).gpu()::free);
            ballast.clear();
        } else {
            AnyGpu.unlimitMemory();
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void leavesWeightsAndOptimiserUnchanged(boolean captured) {
        this.captured = captured;
        // Loads once what the first step of its size needs.
        assertThat(losses(100)).isNull();
        List<Double> undisturbed = losses(-1);
        int failures = 0;
        boolean fits = false;
        // One block more each time, so that the step fails at one allocation after the other.
        for (int blocks = 0; !fits; blocks++) {
            DEVICE.backend().memory().trim();
            List<Double> losses = losses(blocks);
            fits = losses == null;
            if (!fits) {
                assertThat(losses).as("%d blocks", blocks).isEqualTo(undisturbed);
                failures++;
            }
            assertThat(blocks).as("the step must fit at last").isLessThan(100);
        }
        assertThat(failures).as("places where memory ran out").isGreaterThanOrEqualTo(4);
    }

    /**
     * Runs two steps, then one on a large batch with memory for some blocks more than are in use, then two more.
     *
     * @param blocks negative for no large batch
     * @return the losses of the small batches, or {@code null} if the large one succeeded
     */
    private List<Double> losses(int blocks) {
        List<Double> losses = new ArrayList<>();
        try (Layer model = Networks.mlp(Generator.seeded(1), IN, 100, 10).to(DEVICE);
                Optimizer optimizer = Adam.over(model).rate(0.01).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(2))) {
            if (captured) {
                step.captured();
            }
            step(step, SMALL, 0, losses);
            step(step, SMALL, 1, losses);
            Map<String, float[]> before = state(model, optimizer);
            if (blocks >= 0) {
                DEVICE.backend().memory().trim();
                limitMemory(blocks * BLOCK);
                try {
                    step(step, LARGE, 2, new ArrayList<>());
                    return null;
                } catch (TensorException e) {
                    unlimitMemory();
                    assertThat(e.problem()).isEqualTo(TensorException.Problem.MEMORY);
                    assertThat(e).hasMessageContaining("in use").hasMessageContaining("cached");
                    Map<String, float[]> after = state(model, optimizer);
                    assertThat(after.keySet()).isEqualTo(before.keySet());
                    after.forEach((path, values) -> assertThat(values).as(path).isEqualTo(before.get(path)));
                    assertThat(optimizer.steps()).isEqualTo(2);
                }
            }
            step(step, SMALL, 3, losses);
            step(step, SMALL, 4, losses);
        } finally {
            unlimitMemory();
        }
        return losses;
    }

    private static void step(TrainingStep step, int batch, long seed, List<Double> losses) {
        try (Scope scope = Scope.open("batch")) {
            Generator generator = Generator.seeded(seed);
            Tensor input = generator.uniform(batch, IN);
            losses.add(step.run(input, generator.integers(0, 10, batch)));
        }
    }

    private static Map<String, float[]> state(Layer model, Optimizer optimizer) {
        Map<String, float[]> state = new TreeMap<>();
        model.state().forEach((path, p) -> state.put("model " + path, p.value().toFloats()));
        optimizer.state().forEach((path, p) -> state.put("optimizer " + path, p.value().toFloats()));
        return state;
    }
}
