package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class ShareTest {
    /** The only field of example i is i. */
    private record Numbers(int size) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) {
            target.put(0, index);
        }
    }

    private static DataLoader.Builder builder(int size, int batch, Random random) {
        DataLoader.Builder builder = DataLoader.of(new Numbers(size)).batchSize(batch).workers(0)
                .seed(random.nextLong());
        builder = random.nextBoolean() ? builder.shuffle() : builder;
        return random.nextBoolean() ? builder.dropLast() : builder;
    }

    private static List<Integer> rows(EpochPlan plan, int batch) {
        return IntStream.range(0, plan.size(batch)).map(i -> plan.index(batch, i)).boxed().toList();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 4, 5, 6, 7})
    void dividesTheBatchesOfOneProcessIntoParts(int world) {
        Random random = new Random(world);
        for (int trial = 0; trial < 300; trial++) {
            int epoch = random.nextInt(5);
            DataLoaderConfig config = builder(random.nextInt(200), 1 + random.nextInt(70), random).config();
            int[] weights = IntStream.range(0, world).map(r -> random.nextInt(4) == 0 ? 0 : random.nextInt(1000))
                    .toArray();
            weights[random.nextInt(world)]++;
            boolean even = random.nextBoolean();
            EpochPlan whole = EpochPlan.of(epoch, config, Share.whole());
            List<EpochPlan> plans = IntStream.range(0, world).mapToObj(r -> EpochPlan.of(epoch, config,
                    even ? Share.part(r, world) : Share.part(r, weights))).toList();
            for (int b = 0; b < whole.batches(); b++) {
                List<Integer> union = new ArrayList<>();
                for (EpochPlan plan : plans) {
                    assertThat(plan.batches()).isEqualTo(whole.batches());
                    assertThat(plan.rows(b)).isEqualTo(whole.size(b));
                    union.addAll(rows(plan, b));
                }
                assertThat(union).isEqualTo(rows(whole, b));
            }
        }
    }

    @Test
    void dividesBatchesInProportionToWeights() {
        assertThat(Share.part(0, 3).rows(0, 100)).isEqualTo(33);
        assertThat(Share.part(2, 3).rows(0, 100)).isEqualTo(34);
        int[] weights = {1, 3, 0, 4};
        assertThat(IntStream.range(0, 4).map(r -> Share.part(r, weights).rows(0, 64))).containsExactly(8, 24, 0, 32);
        assertThat(IntStream.range(0, 4).map(r -> Share.part(r, weights).rows(0, 1)).sum()).isEqualTo(1);
        assertThat(Share.part(0, 1).rows(0, 7)).isEqualTo(Share.whole().rows(0, 7)).isEqualTo(7);
        assertThatThrownBy(() -> Share.part(0, new int[] {0, 0})).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Share.part(1, new int[] {5, -2, 9})).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Share.shard(2, 2)).isInstanceOf(TensorException.class);
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2, 3, 5, 8})
    void readsEachOwnRowOnceAndTheSameFractionOnEachRank(int world) {
        Random random = new Random(world);
        for (int trial = 0; trial < 200; trial++) {
            List<Integer> sizes = IntStream.range(0, world).mapToObj(r -> random.nextInt(4) == 0 ? random.nextInt(3)
                    : random.nextInt(300)).toList();
            int batch = 1 + random.nextInt(70);
            int all = sizes.stream().mapToInt(i -> i).sum();
            int[] totals = new int[Math.ceilDiv(all, batch)];
            for (int r = 0; r < world; r++) {
                DataLoaderConfig config = DataLoader.of(new Numbers(sizes.get(r))).batchSize(batch).shuffle().workers(0)
                        .config();
                EpochPlan plan = EpochPlan.of(trial, config, new Share.OwnPart(r, sizes));
                assertThat(plan.batches()).isEqualTo(totals.length);
                List<Integer> read = new ArrayList<>();
                for (int b = 0; b < totals.length; b++) {
                    read.addAll(rows(plan, b));
                    totals[b] += plan.size(b);
                    assertThat(plan.size(b)).isLessThanOrEqualTo(batch);
                    double expected = (double) sizes.get(r) * Math.min(all, (b + 1) * batch) / all;
                    assertThat((double) read.size()).isBetween(expected - 1, expected);
                }
                assertThat(read).doesNotHaveDuplicates().hasSize(sizes.get(r));
            }
            EpochPlan first = EpochPlan.of(0, DataLoader.of(new Numbers(sizes.getFirst())).batchSize(batch).workers(0)
                    .config(), new Share.OwnPart(0, sizes));
            for (int b = 0; b < totals.length; b++) {
                assertThat(first.rows(b)).isEqualTo(totals[b]).isBetween(Math.min(batch, all - b * batch) - world,
                        batch + world);
            }
        }
    }

    @Test
    void checksTheSizesOfOwnParts() {
        assertThatThrownBy(() -> new Share.OwnPart(2, List.of(1, 2))).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> new Share.OwnPart(0, List.of(1, -2))).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> new Share.OwnPart(0, List.of(Integer.MAX_VALUE, Integer.MAX_VALUE, 7)))
                .hasMessageContaining("2^32");
        assertThatThrownBy(() -> new Share.OwnPart(0, List.of(5, 6)).examples(4)).hasMessageContaining("has 4");
        Share.OwnPart vast = new Share.OwnPart(1, List.of(1, Integer.MAX_VALUE));
        assertThat(vast.place(Integer.MAX_VALUE, 1, 0)).isEqualTo(Integer.MAX_VALUE - 1);
        assertThat(vast.rows(Integer.MAX_VALUE, 1)).isOne();
    }

    @Test
    void makesDisjointShardsOfEqualSize() {
        Random random = new Random(1);
        for (int trial = 0; trial < 200; trial++) {
            int world = 1 + random.nextInt(7);
            DataLoaderConfig config = builder(random.nextInt(200), 1 + random.nextInt(30), random).config();
            List<Integer> all = new ArrayList<>();
            for (int rank = 0; rank < world; rank++) {
                EpochPlan plan = EpochPlan.of(3, config, Share.shard(rank, world));
                assertThat(plan.examples()).isEqualTo(config.dataset().size() / world);
                for (int b = 0; b < plan.batches(); b++) {
                    all.addAll(rows(plan, b));
                    assertThat(plan.size(b)).isEqualTo(plan.rows(b));
                }
            }
            assertThat(all).doesNotHaveDuplicates().hasSizeLessThanOrEqualTo(config.dataset().size());
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3})
    void changesItsShareWithinAnEpoch(int workers) {
        Random random = new Random(workers);
        try (DataLoader whole = DataLoader.of(new Numbers(103)).batchSize(10).workers(0).seed(5).shuffle().build();
                DataLoader loader = DataLoader.of(new Numbers(103)).batchSize(10).workers(workers).seed(5).shuffle()
                        .build()) {
            for (int epoch = 0; epoch < 30; epoch++) {
                Iterator<Batch> batches = loader.epoch(epoch).iterator();
                for (Batch expected : whole.epoch(epoch)) {
                    if (random.nextInt(3) == 0) {
                        int world = 1 + random.nextInt(12);
                        loader.share(Share.part(random.nextInt(world), world));
                        batches = loader.epoch(epoch, expected.number()).iterator();
                    }
                    Batch batch = batches.next();
                    assertThat(batch.number()).isEqualTo(expected.number());
                    assertThat(batch.rows()).isEqualTo(expected.size());
                    int from = loader.share().place(0, batch.rows(), 0);
                    long[] own = batch.input().toLongs();
                    assertThat(own).hasSize(batch.size())
                            .isEqualTo(Arrays.copyOfRange(expected.input().toLongs(), from, from + own.length));
                }
                assertThat(batches.hasNext()).isFalse();
            }
        }
    }
}
