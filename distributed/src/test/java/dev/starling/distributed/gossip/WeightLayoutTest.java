package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Parameter;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import java.lang.foreign.Arena;
import org.junit.jupiter.api.Test;

class WeightLayoutTest {
    @Test
    void mixesFiniteWeightsIntoThoseThatAreNotFrozen() {
        try (Arena arena = Arena.ofConfined(); Linear line = Linear.of(3, 1, Generator.seeded(1));
                Optimizer sgd = Sgd.over(line).build()) {
            WeightLayout layout = new WeightLayout(TrainingState.of(line, sgd));
            Tensor[] slot = layout.over(arena.allocate(layout.bytes(), 64));
            Parameter weight = line.weight();
            weight.set(Tensor.ones(1, 3));
            line.bias().set(Tensor.ones(1));
            layout.write(slot);
            assertThat(WeightLayout.isFinite(slot)).isTrue();
            weight.set(Tensor.full(DType.F32, 3, 1, 3));
            weight.to(DType.F64);
            line.bias().set(Tensor.full(DType.F32, 3, 1));
            line.bias().freeze();
            layout.mix(slot, 0.5);
            assertThat(weight.value().toDoubles()).containsOnly(2);
            assertThat(line.bias().value().item()).isEqualTo(3);
            layout.mix(slot, 0);
            assertThat(line.bias().value().item()).isEqualTo(1);
            slot[1].segment().set(java.lang.foreign.ValueLayout.JAVA_FLOAT, 0, Float.NaN);
            assertThat(WeightLayout.isFinite(slot)).isFalse();
            for (Tensor each : slot) {
                each.close();
            }
        }
    }
}
