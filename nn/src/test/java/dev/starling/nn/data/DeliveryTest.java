package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.nn.FarProvider;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.layer.Relu;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.spi.MemoryUse;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.stream.DoubleStream;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Delivery of batches to a device whose memory the host cannot access. */
@Timeout(60)
class DeliveryTest {
    private static final Device FAR = FarProvider.device();

    /** The first field of example i is (i, i²/100), its class is i modulo 3. */
    private record Numbers(int size) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 2), Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) {
            float[] x = target.floats(0);
            x[0] = index;
            x[1] = index * index / 100f;
            target.put(0, x);
            target.put(1, index % 3);
        }
    }

    private static DataLoader loader(int workers) {
        return DataLoader.of(new Numbers(103)).batchSize(10).workers(workers).seed(5).shuffle().build();
    }

    private static List<String> run(DataLoader loader, int epoch, Device expected) {
        List<String> seen = new ArrayList<>();
        for (Batch batch : loader.epoch(epoch)) {
            assertThat(batch.input().device()).isSameAs(expected);
            assertThat(batch.target().device()).isSameAs(expected);
            seen.add(Arrays.toString(batch.input().toFloats()) + Arrays.toString(batch.target().toLongs()));
        }
        return seen;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3})
    void deliversTheSameBatchesOnTheDevice(int workers) {
        try (DataLoader loader = loader(workers); DataLoader plain = loader(0)) {
            for (int epoch = 0; epoch < 5; epoch++) {
                List<String> expected = run(plain, epoch, Device.cpu());
                assertThat(expected).hasSize(11);
                assertThat(run(loader.device(FAR), epoch, FAR)).isEqualTo(expected);
                // An epoch that is abandoned after its first batch leaves unfinished uploads behind.
                loader.epoch(epoch).iterator().next();
                assertThat(run(loader.device(Device.cpu()), epoch, Device.cpu())).isEqualTo(expected);
            }
        }
    }

    @Test
    void reusesMemoryOnTheDeviceAndFreesItOnClose() {
        MemoryUse before = FAR.memory();
        try (DataLoader loader = loader(1).device(FAR)) {
            run(loader, 0, FAR);
            MemoryUse first = FAR.memory();
            assertThat(first.live()).isGreaterThan(before.live());
            for (int epoch = 1; epoch < 5; epoch++) {
                run(loader, epoch, FAR);
            }
            assertThat(FAR.memory().live()).isEqualTo(first.live());
            assertThat(FAR.memory().allocations()).isEqualTo(first.allocations());
        }
        assertThat(FAR.memory().live()).isEqualTo(before.live());
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void allocatesNothingOnTheDeviceOnceClosed(int workers) {
        long before = FAR.memory().live();
        DataLoader loader = loader(workers).device(FAR);
        Iterator<Batch> batches = loader.epoch(0).iterator();
        batches.next();
        loader.close();
        assertThatThrownBy(batches::next).isInstanceOf(LoadException.class).hasMessageContaining("is closed");
        assertThat(FAR.memory().live()).isEqualTo(before);
    }

    @Test
    void trainsToTheSameBitsOnTheDeviceAndUploadsConcurrently() {
        double[] expected = train(Device.reference());
        FarProvider.UPLOADS.set(0);
        FarProvider.COPIES.set(0);
        assertThat(train(FAR)).isEqualTo(expected);
        // Two fields of eleven batches in two epochs of training and three evaluations.
        assertThat(FarProvider.COPIES.get()).isEqualTo(2 * 11 * (2 + 3));
        // The remaining uploads are those of the parameters; there is none for each step.
        assertThat(FarProvider.UPLOADS.get()).isLessThan(20);
        assertThat(FarProvider.OPEN.get()).isZero();
    }

    private static double[] train(Device device) {
        try (Sequential model = Sequential.of(Linear.of(2, 8, Generator.seeded(1)), new Relu(),
                Linear.of(8, 3, Generator.seeded(2)))) {
            model.to(device);
            try (DataLoader data = loader(2); DataLoader held = loader(1);
                    Optimizer optimizer = Sgd.over(model).rate(1e-4).build()) {
                Trainer.of(model, Loss.crossEntropy(), optimizer).data(data).heldOut(held).epochs(2).seed(3).build()
                        .run();
                assertThat(data.device()).isSameAs(Device.cpu());
                double loss = Scores.evaluate(model, Loss.crossEntropy(), held).loss();
                return DoubleStream.concat(DoubleStream.of(loss), model.parameters().values().stream()
                        .flatMapToDouble(p -> Arrays.stream(p.value().toDoubles()))).toArray();
            }
        }
    }

    @Test
    void deliversPaddedBatchesOfDifferentLengthsOnTheDevice() {
        List<long[]> sequences = IntStream.range(0, 40).mapToObj(i -> LongStream.rangeClosed(1, i * 7 % 13).toArray())
                .toList();
        Dataset data = Sequences.of("tokens", sequences).mask("mask");
        try (DataLoader loader = DataLoader.of(data).batchSize(6).workers(2).shuffle().build();
                DataLoader plain = DataLoader.of(data).batchSize(6).workers(0).shuffle().build()) {
            loader.device(FAR);
            for (int epoch = 0; epoch < 3; epoch++) {
                Iterator<Batch> expected = plain.epoch(epoch).iterator();
                for (Batch batch : loader.epoch(epoch)) {
                    Batch other = expected.next();
                    assertThat(batch.tensor("mask").device()).isSameAs(FAR);
                    assertThat(batch.tensor("tokens").shape()).isEqualTo(other.tensor("tokens").shape());
                    assertThat(batch.tensor("tokens").toLongs()).isEqualTo(other.tensor("tokens").toLongs());
                    assertThat(batch.tensor("mask").to(DType.I64).toLongs()).isEqualTo(other.tensor("mask")
                            .to(DType.I64).toLongs());
                }
            }
        }
    }

    @Test
    void reportsAFailedUpload() {
        BatchSlot batch = new BatchSlot(new Numbers(4).fields(), Lengths.of(new Numbers(4), List.of()));
        batch.assign(EpochPlan.of(0, DataLoader.of(new Numbers(4)).batchSize(4).config(), Share.whole()), 0, FAR);
        batch.lend();
        LoaderWorker.fill(new Numbers(4), batch, new Example(new Numbers(4).fields(), 0));
        assertThat(batch.failure).hasMessageContaining("batch 1 of epoch 1 cannot be uploaded")
                .hasRootCauseMessage("copy() was called before lend()");
        batch.close();
    }
}
