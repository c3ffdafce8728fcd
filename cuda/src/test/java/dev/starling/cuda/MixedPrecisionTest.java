package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.BatchNorm;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.LayerNorm;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.MaxPool2d;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** 16-bit training on a GPU, whose memory the host cannot read, compared with the same on the CPU. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class MixedPrecisionTest {
    private static final Device GPU = AnyGpu.device();
    private static final int STEPS = 4;

    private static Layer network() {
        Generator g = Generator.seeded(1);
        return Sequential.of(Conv2d.of(2, 8, 3).padding(1).withoutBias().build(g), BatchNorm.of(8), new Relu(),
                MaxPool2d.of(2), new Flatten(), Linear.of(32, 16, g), LayerNorm.of(16), new Relu(),
                Linear.of(16, 3, g));
    }

    private record Outcome(List<Double> losses, float[] weights, float[] mean) { }

    private static Outcome train(Device device, DType type) {
        try (Scope scope = Scope.open(); Layer model = network().to(device);
                Optimizer sgd = Sgd.over(model).rate(0.05).momentum(0.9).build();
                TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), sgd, Generator.seeded(1))
                        .precision(Precision.of(type))) {
            Generator g = Generator.seeded(2);
            List<Double> losses = new ArrayList<>();
            for (int i = 0; i < STEPS; i++) {
                losses.add(step.run(g.normal(8, 2, 4, 4), g.integers(0, 3, 8)));
            }
            assertThat(step.skipped()).isZero();
            return new Outcome(losses, model.state().get("5.weight").value().toFloats(),
                    model.state().get("1.running_mean").value().toFloats());
        }
    }

    @ParameterizedTest
    @EnumSource(value = DType.class, names = {"BF16", "F16"})
    void computesTheCpusSteps(DType type) {
        Outcome host = train(Device.cpu(), type);
        Outcome gpu = train(GPU, type);
        for (int i = 0; i < STEPS; i++) {
            assertThat(gpu.losses.get(i)).isCloseTo(host.losses.get(i), within(1e-2));
        }
        assertThat(gpu.weights).containsExactly(host.weights, within(1e-2f));
        assertThat(gpu.mean).containsExactly(host.mean, within(1e-2f));
        assertThat(gpu.losses.get(0)).isNotEqualTo(train(GPU, DType.F32).losses.get(0));
    }

    /** The device itself detects the overflow and changes nothing; the host learns of it when everything is queued. */
    @Test
    void skipsAnOverflowOnTheDevice() {
        try (Scope scope = Scope.open(); Layer line = Linear.of(2, 1, Generator.seeded(1)).to(GPU);
                Optimizer sgd = Sgd.over(line).momentum(0.9).build();
                TrainingStep step = new TrainingStep(line, (result, target) -> result.sum().mul(1.5), sgd,
                        Generator.seeded(1)).precision(Precision.of(DType.F16))) {
            float[] before = line.state().get("weight").value().toFloats();
            step.run(Tensor.ones(1, 2), Tensor.zeros(1, 1));
            assertThat(step.skipped()).isEqualTo(1);
            assertThat(step.lossScale()).isEqualTo(32768);
            assertThat(sgd.steps()).isZero();
            assertThat(line.state().get("weight").value().toFloats()).isEqualTo(before);
            assertThat(sgd.state().get("weight.velocity").value().toFloats()).containsOnly(0);
            step.run(Tensor.ones(1, 2), Tensor.zeros(1, 1));
            assertThat(step.skipped()).isEqualTo(1);
            assertThat(sgd.steps()).isEqualTo(1);
            assertThat(line.state().get("weight").value().toFloats()).isNotEqualTo(before);
        }
    }
}
