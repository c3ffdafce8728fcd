package dev.starling.distributed.gossip;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.Layer;
import dev.starling.nn.Parameter;
import dev.starling.nn.Sequential;
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
            WeightLayout layout = new WeightLayout(TrainingState.of(line, sgd), 1000);
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

    private static WeightLayout layout(int results, int chars) {
        try (Layer net = Sequential.of(Linear.of(3, 4, Generator.seeded(1)), Linear.of(4, results,
                        Generator.seeded(1)));
                Optimizer sgd = Sgd.over(net).build()) {
            return new WeightLayout(TrainingState.of(net, sgd), chars);
        }
    }

    /** A model may have more tensors than a message has room for. */
    @Test
    void describesItselfInALimitedLength() {
        WeightLayout two = layout(2, 1000);
        WeightLayout five = layout(5, 1000);
        assertThat(two.checksum()).isNotEqualTo(five.checksum());
        assertThat(five.difference(two.text())).startsWith("it has model.1.weight").contains("[2, 4]")
                .contains("this rank has model.1.weight").contains("[5, 4]");
        int half = two.text().length() / 2 + 1;
        WeightLayout abridged = layout(2, half);
        assertThat(abridged.checksum()).isEqualTo(two.checksum());
        assertThat(abridged.text().length()).isLessThan(half);
        assertThat(two.text()).startsWith(abridged.text());
        assertThat(five.difference(abridged.text())).isEqualTo("its tensors after the first 2 differ");
    }
}
