package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.nn.data.Batch;
import dev.starling.nn.data.DataLoader;
import dev.starling.nn.data.TensorDataset;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.spi.MemoryUse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/** Batches that the data loader's workers upload. */
@EnabledIf(value = "dev.starling.cuda.AnyGpu#isAvailable", disabledReason = "needs an NVIDIA GPU, or g++ on x86-64")
class DeliveryTest {
    private static final Device DEVICE = AnyGpu.device();

    private static List<String> run(DataLoader loader, Device expected) {
        List<String> seen = new ArrayList<>();
        for (Batch batch : loader.epoch(1)) {
            assertThat(batch.input().device()).isSameAs(expected);
            seen.add(Arrays.toString(batch.input().toFloats()) + Arrays.toString(batch.target().toLongs()));
        }
        return seen;
    }

    @Test
    void deliversTheHostsBatchesInReusedMemory() {
        Tensor inputs = Generator.seeded(1).normal(301, 3, 5);
        Tensor targets = Tensor.of(LongStream.range(0, 301).toArray());
        MemoryUse before = DEVICE.memory();
        try (inputs; targets; DataLoader loader = DataLoader.of(TensorDataset.of(inputs, targets)).batchSize(32)
                .workers(2).shuffle().build()) {
            List<String> expected = run(loader, Device.cpu());
            loader.device(DEVICE);
            assertThat(run(loader, DEVICE)).isEqualTo(expected).hasSize(10);
            MemoryUse first = DEVICE.memory();
            for (int i = 0; i < 5; i++) {
                assertThat(run(loader, DEVICE)).isEqualTo(expected);
            }
            assertThat(DEVICE.memory().live()).isEqualTo(first.live()).isGreaterThan(before.live());
            assertThat(DEVICE.memory().allocations()).isEqualTo(first.allocations());
        }
        assertThat(DEVICE.memory().live()).isEqualTo(before.live());
    }
}
