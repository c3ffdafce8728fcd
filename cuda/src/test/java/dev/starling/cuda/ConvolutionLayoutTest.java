package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Precision;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Conv2d;
import dev.starling.nn.layer.Flatten;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.TrainingStep;
import dev.starling.tensor.Convolutions;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Interceptor;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Op;
import dev.starling.tensor.op.Update;
import dev.starling.tensor.spi.ChannelsLast;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Convolution weights stay in the layout that the device's library reads, so that a step copies none of them. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class ConvolutionLayoutTest {
    private static final Device GPU = AnyGpu.device();

    private static Sequential model() {
        Generator random = Generator.seeded(5);
        return Sequential.of(Conv2d.of(4, 6, 3).padding(1).build(random), new Relu(),
                Conv2d.of(6, 5, 2).stride(2).build(random), new Flatten(), Linear.of(20, 3, random));
    }

    /** Records each tensor with the shape of convolution weights that is not channels last. */
    private static Interceptor watcher(List<String> convolutions, List<String> rowMajor) {
        return new Interceptor() {
            @Override
            public void onOperation(Op op, Tensor[] inputs, Tensor[] outputs) {
                switch (op) {
                    case Convolution.Conv _ -> check(op, inputs[1]);
                    case Convolution.ConvInputGradient _ -> check(op, inputs[1]);
                    case Convolution.ConvWeightGradient _ -> check(op, outputs[0]);
                    case Update _ -> check(op, inputs);
                    default -> { }
                }
            }

            private void check(Op op, Tensor... weights) {
                for (Tensor w : weights) {
                    if (w.rank() == 4) {
                        convolutions.add(op.name());
                        if (!ChannelsLast.holds(w)) {
                            rowMajor.add(op.name() + " " + w.spec());
                        }
                    }
                }
            }

            @Override
            public Tensor allocate(Spec spec, long[] strides) {
                return null;
            }

            @Override
            public void onRead(Tensor tensor) { }
        };
    }

    @ParameterizedTest
    @EnumSource(names = {"F32", "BF16"})
    void keepsWeightsChannelsLast(DType type) {
        double[][] losses = new double[2][4];
        List<String> convolutions = new ArrayList<>();
        List<String> rowMajor = new ArrayList<>();
        try (Scope scope = Scope.open()) {
            for (int d = 0; d < 2; d++) {
                Sequential model = model();
                model.to(d == 0 ? Device.cpu() : GPU);
                try (Optimizer optimizer = Adam.over(model).rate(0.01).build();
                        TrainingStep step = new TrainingStep(model, Loss.crossEntropy(), optimizer, Generator.seeded(1))
                                .precision(Precision.of(type))) {
                    for (int i = 0; i < losses[d].length; i++) {
                        Tensor x = Generator.seeded(i).normal(7, 4, 5, 4).to(model.device());
                        Tensor y = Generator.seeded(i).integers(0, 3, 7).to(model.device());
                        Interceptor watcher = watcher(convolutions, rowMajor);
                        double[] loss = losses[d];
                        int at = i;
                        if (d == 0) {
                            loss[at] = step.run(x, y);
                        } else {
                            Interceptor.with(watcher, () -> loss[at] = step.run(x, y));
                        }
                    }
                }
                model.close();
            }
        }
        assertThat(losses[1]).containsExactly(losses[0], within(type == DType.F32 ? 1e-4 : 0.02));
        assertThat(convolutions).contains("conv", "adam");
        if (AnyGpu.computedByLibraries() > 0) {
            assertThat(rowMajor).isEmpty();
        }
    }

    /** Groups are a dimension of the grid, which has a limit; beyond it the host computes. */
    @Test
    void computesMoreGroupsThanAGridHasRowsFor() {
        try (Scope scope = Scope.open()) {
            Generator random = Generator.seeded(6);
            int groups = 70_000;
            Tensor x = random.uniform(1, groups, 1, 2).to(DType.F64);
            Tensor weight = random.uniform(groups, 1, 1, 1).to(DType.F64);
            Tensor y = Convolutions.conv2d(x.to(GPU), weight.to(GPU), null, 1, 0, 1, groups);
            assertThat(y.toDoubles()).isEqualTo(x.mul(weight.reshape(1, groups, 1, 1)).toDoubles());
        }
    }
}
