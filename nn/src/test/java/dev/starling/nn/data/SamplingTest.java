package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.tensor.DType;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class SamplingTest {
    /** Example i has the input (i, epoch) and the class i modulo 3. */
    private static Dataset numbers(int size) {
        return ListDataset.of(IntStream.range(0, size).boxed().toList(), List.of(Field.of(DType.F32, 2),
                Field.of(DType.I64)), (i, example) -> {
                    example.put(0, new float[] {i, example.epoch()});
                    example.put(1, i % 3);
                });
    }

    private static final Dataset STREAM = StreamDataset.of(() -> IntStream.range(0, 9).iterator(), 9,
            List.of(Field.of(DType.F32, 2), Field.of(DType.I64)), (i, example) -> {
                example.put(0, new float[] {i, 0});
                example.put(1, i % 3);
            });

    private static List<int[]> batches(Dataset dataset, int batchSize, int workers, long seed, int epoch) {
        List<int[]> read = new ArrayList<>();
        try (DataLoader loader = DataLoader.of(dataset).batchSize(batchSize).workers(workers).seed(seed).build()) {
            for (Batch batch : loader.epoch(epoch)) {
                float[] x = batch.input().toFloats();
                int[] indices = new int[batch.size()];
                for (int i = 0; i < indices.length; i++) {
                    indices[i] = (int) x[2 * i];
                    assertThat(x[2 * i + 1]).isEqualTo(epoch);
                    assertThat(batch.target().toLongs()[i]).isEqualTo(indices[i] % 3);
                }
                read.add(indices);
            }
        }
        return read;
    }

    private static int[] all(Dataset dataset, long seed, int epoch) {
        return batches(dataset, 7, 0, seed, epoch).stream().flatMapToInt(Arrays::stream).toArray();
    }

    private static int[] sorted(int... values) {
        return Arrays.stream(values).sorted().toArray();
    }

    private static int[] classes(int size) {
        return IntStream.range(0, size).map(i -> i % 3).toArray();
    }

    @Test
    void splitsAtRandom() {
        List<Subset> parts = Subset.split(numbers(20), 3, 0.5, 0.3, 0.2);
        assertThat(parts).extracting(Subset::size).containsExactly(10, 6, 4);
        int[] together = IntStream.concat(IntStream.concat(Arrays.stream(all(parts.get(0), 0, 0)), Arrays.stream(all(
                parts.get(1), 0, 0))), Arrays.stream(all(parts.get(2), 0, 0))).toArray();
        assertThat(sorted(together)).isEqualTo(IntStream.range(0, 20).toArray());
        assertThat(together).isNotEqualTo(sorted(together));
        assertThat(all(Subset.split(numbers(20), 3, 0.5).get(0), 0, 0)).isEqualTo(all(parts.get(0), 0, 0));
        assertThat(all(Subset.split(numbers(20), 4, 0.5).get(0), 0, 0)).isNotEqualTo(all(parts.get(0), 0, 0));
        assertThat(all(Subset.of(numbers(20), 7, 2, 7), 0, 5)).containsExactly(7, 2, 7);
        assertThatThrownBy(() -> Subset.of(numbers(20), 20)).isInstanceOf(TensorException.class)
                .hasMessageContaining("index 20 at place 0");
        assertThat(all(Subset.of(STREAM, 2, 5), 0, 0)).containsExactly(2, 5);
        assertThatThrownBy(() -> Subset.of(STREAM, 5, 2)).hasMessageContaining("read in order");
    }

    @Test
    void splitsEachClassInTheSameShares() {
        int[] classes = IntStream.range(0, 100).map(i -> i < 80 ? 5 : i < 90 ? -1 : 7).toArray();
        List<int[]> parts = Subset.stratified(classes, 1, 0.7, 0.3);
        assertThat(parts.get(0)).hasSize(70).isSorted();
        assertThat(Arrays.stream(parts.get(0)).filter(i -> i < 80).count()).isEqualTo(56);
        assertThat(Arrays.stream(parts.get(1)).filter(i -> i >= 90).count()).isEqualTo(3);
        assertThat(sorted(IntStream.concat(Arrays.stream(parts.get(0)), Arrays.stream(parts.get(1))).toArray()))
                .isEqualTo(IntStream.range(0, 100).toArray());
        assertThat(Subset.split(numbers(9), classes(9), 1, 0.34).get(0).size()).isEqualTo(3);
        assertThatThrownBy(() -> Subset.split(numbers(9), classes(8), 1, 0.5)).hasMessageContaining("9 examples");
    }

    @Test
    void partsOfSmallClassesHaveTheirShares() {
        for (double[] shares : new double[][] {{0.8, 0.2}, {0.9, 0.1}, {0.8, 0.1, 0.1}, {0.5, 0.5}, {0.3}, {0, 0.25,
                0.6, 0.1, 0.05}}) {
            for (int members = 1; members <= 7; members++) {
                int size = members;
                int[] classes = IntStream.range(0, 60 * size + 1).map(i -> i / size).toArray();
                List<int[]> parts = Subset.stratified(classes, 1, shares);
                for (int i = 0; i < shares.length; i++) {
                    int[] part = parts.get(i);
                    assertThat((double) part.length).isEqualTo(classes.length * shares[i], within(1.0));
                    for (int c = 0; c < 60; c++) {
                        int wanted = c;
                        assertThat((double) Arrays.stream(part).filter(k -> classes[k] == wanted).count())
                                .isEqualTo(size * shares[i], within(0.9999));
                    }
                }
                assertThat(parts.stream().flatMapToInt(Arrays::stream).toArray()).doesNotHaveDuplicates();
                assertThat(parts.stream().mapToInt(part -> part.length).sum() == classes.length)
                        .isEqualTo(Arrays.stream(shares).sum() > 0.999);
            }
        }
    }

    @Test
    void measuresEachExampleInOneFold() {
        List<Subset.Fold> folds = Subset.kFold(numbers(30), classes(30), 5, 2);
        List<Integer> held = new ArrayList<>();
        for (Subset.Fold fold : folds) {
            int[] heldOut = all(fold.heldOut(), 0, 0);
            int[] train = all(fold.train(), 0, 0);
            assertThat(heldOut).hasSize(6);
            for (int c = 0; c < 3; c++) {
                int wanted = c;
                assertThat(Arrays.stream(heldOut).filter(i -> i % 3 == wanted).count()).isEqualTo(2);
            }
            assertThat(sorted(IntStream.concat(Arrays.stream(heldOut), Arrays.stream(train)).toArray())).isEqualTo(
                    IntStream.range(0, 30).toArray());
            Arrays.stream(heldOut).forEach(held::add);
        }
        assertThat(held).doesNotHaveDuplicates().hasSize(30);
        assertThat(Subset.kFold(numbers(7), 3, 1)).extracting(f -> f.heldOut().size()).containsExactly(3, 2, 2);
        assertThatThrownBy(() -> Subset.kFold(numbers(7), 1, 1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Subset.kFold(numbers(7), 8, 1)).isInstanceOf(TensorException.class);
    }

    @Test
    void readsOneSetAfterTheOther() {
        Dataset both = ConcatDataset.of(numbers(0), Subset.of(numbers(9), 4, 5), numbers(0), numbers(3), numbers(0));
        assertThat(both.size()).isEqualTo(5);
        assertThat(all(both, 0, 1)).containsExactly(4, 5, 0, 1, 2);
        assertThat(ConcatDataset.of(numbers(1), STREAM).isSequential()).isTrue();
        assertThatThrownBy(() -> ConcatDataset.of(numbers(1), ListDataset.of(List.of(), List.of(Field.of(DType.I64)),
                (i, e) -> { }))).hasMessageContaining("equal fields");
        assertThatThrownBy(ConcatDataset::of).isInstanceOf(TensorException.class);
    }

    @Test
    void keepsTheLengthsOfExamples() {
        Dataset ragged = new Dataset() {
            @Override
            public int size() {
                return 4;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.padded("x", DType.I64, -1, 3));
            }

            @Override
            public int length(int index) {
                return index;
            }

            @Override
            public void write(int index, Example target) {
                target.put(0, Arrays.copyOf(new long[] {7, 8, 9}, index));
            }
        };
        Dataset chosen = ConcatDataset.of(Subset.of(ragged, 3, 1), Subset.of(ragged, 2));
        try (DataLoader loader = DataLoader.of(chosen).batchSize(3).build()) {
            assertThat(loader.epoch(0).iterator().next().input().toLongs()).containsExactly(7, 8, 9, 7, -1, -1, 7, 8,
                    -1);
        }
        assertThatThrownBy(() -> MapDataset.of(ragged, ragged.fields(), (example, random) -> example))
                .isInstanceOf(TensorException.class).hasMessageContaining("same shapes");
        assertThatThrownBy(() -> StratifiedDataset.of(ragged, new int[4])).hasMessageContaining("same shapes");
        assertThatThrownBy(() -> chosen.length(3)).isInstanceOf(TensorException.class);
    }

    @Test
    void drawsByWeight() {
        double[] weights = {0, 1, 0, 3, 0};
        WeightedDataset drawn = WeightedDataset.of(numbers(5), weights, 4000);
        int[] first = all(drawn, 1, 0);
        assertThat(first).hasSize(4000).containsOnly(1, 3);
        // The deviation of the number of draws is √(4000 · 3/16) = 27.
        assertThat((int) Arrays.stream(first).filter(i -> i == 3).count()).isCloseTo(3000, within(140));
        assertThat(all(drawn, 1, 0)).isEqualTo(first);
        assertThat(all(drawn, 1, 1)).isNotEqualTo(first);
        assertThat(all(drawn, 2, 0)).isNotEqualTo(first);
        assertThat(all(WeightedDataset.of(numbers(2), new double[] {Double.MIN_VALUE, 0}, 50), 1, 0)).containsOnly(0);

        int[] classes = IntStream.range(0, 1000).map(i -> i < 50 ? 1 : 0).toArray();
        int[] balanced = all(WeightedDataset.balanced(numbers(1000), classes), 1, 0);
        assertThat((int) Arrays.stream(balanced).filter(i -> i < 50).count()).isCloseTo(500, within(80));
        assertThatThrownBy(() -> WeightedDataset.of(numbers(2), new double[] {0, 0}, 3)).isInstanceOf(
                TensorException.class);
        assertThatThrownBy(() -> WeightedDataset.of(numbers(2), new double[] {1, -1}, 3)).isInstanceOf(
                TensorException.class);
        assertThatThrownBy(() -> WeightedDataset.of(numbers(2), new double[] {1}, 3)).isInstanceOf(
                TensorException.class);
        assertThatThrownBy(() -> WeightedDataset.of(STREAM, new double[9], 3)).isInstanceOf(TensorException.class);
    }

    @Test
    void givesEachBatchAllClasses() {
        int[] classes = IntStream.range(0, 120).map(i -> i < 60 ? 0 : i < 100 ? 1 : 2).toArray();
        StratifiedDataset even = StratifiedDataset.of(numbers(120), classes);
        for (int epoch = 0; epoch < 3; epoch++) {
            for (int[] batch : batches(even, 12, 2, 4, epoch)) {
                int[] counts = new int[3];
                Arrays.stream(batch).forEach(i -> counts[classes[i]]++);
                assertThat(counts[0]).isBetween(4, 8);
                assertThat(counts[1]).isBetween(2, 6);
                assertThat(counts[2]).isBetween(1, 3);
            }
            assertThat(sorted(all(even, 4, epoch))).isEqualTo(IntStream.range(0, 120).toArray());
        }
        assertThat(all(even, 4, 0)).isEqualTo(all(StratifiedDataset.of(numbers(120), classes), 4, 0))
                .isNotEqualTo(all(even, 4, 1)).isNotEqualTo(all(even, 5, 0));
        assertThatThrownBy(() -> StratifiedDataset.of(STREAM, classes(9))).hasMessageContaining("read in order");
    }

    @Test
    void mapsExamples() {
        Dataset mapped = MapDataset.of(numbers(10), List.of(Field.of(DType.F32, 3), Field.of(DType.F32)),
                (example, random) -> new Tensor[] {Tensor.concat(0, example[0].mul(2), Tensor.of(new float[] {
                    random.nextFloat()})), example[1].to(DType.F32).add(0.5)});
        List<String> read = new ArrayList<>();
        for (int workers = 0; workers < 3; workers++) {
            try (DataLoader loader = DataLoader.of(mapped).batchSize(4).workers(workers).seed(1).build()) {
                StringBuilder text = new StringBuilder();
                for (Batch batch : loader.epoch(2)) {
                    float[] x = batch.input().toFloats();
                    for (int i = 0; i < batch.size(); i++) {
                        assertThat(x[3 * i]).isEqualTo(2 * batch.index(i));
                        assertThat(x[3 * i + 1]).isEqualTo(4);
                        assertThat(batch.target().toFloats()[i]).isEqualTo(batch.index(i) % 3 + 0.5f);
                    }
                    text.append(Arrays.toString(x));
                }
                read.add(text.toString());
            }
        }
        assertThat(read.get(1)).isEqualTo(read.get(0)).isEqualTo(read.get(2));
        Dataset wrong = MapDataset.of(numbers(10), numbers(1).fields(), (example, random) -> new Tensor[] {example[1],
            example[0]});
        assertThatThrownBy(() -> all(wrong, 0, 0)).isInstanceOf(LoadException.class).hasMessageContaining(
                "field 0 must be f32");
        assertThat(MapDataset.of(STREAM, STREAM.fields(), (example, random) -> example).isSequential()).isTrue();
    }

    /** Otherwise, for example, exactly those images would be mirrored that have become brighter. */
    @Test
    void drawsOtherNumbersForAMappingOfMappedExamples() {
        List<Field> fields = numbers(1).fields();
        MapDataset.Mapping draw = (example, random) -> new Tensor[] {Tensor.concat(0, example[0].narrow(0, 1, 1),
            Tensor.of(new float[] {random.nextFloat()})), example[1]};
        Dataset twice = MapDataset.of(MapDataset.of(numbers(5), fields, draw), fields, draw);
        try (DataLoader loader = DataLoader.of(twice).workers(0).build()) {
            float[] drawn = loader.epoch(0).iterator().next().input().toFloats();
            for (int i = 0; i < drawn.length; i += 2) {
                assertThat(drawn[i]).isNotEqualTo(drawn[i + 1]);
            }
        }
    }

    @Test
    void mixesExamplesAndTheirClasses() {
        Mixup mixed = Mixup.of(numbers(30), 3, 0.4);
        double smallShares = 0;
        for (int workers = 0; workers < 2; workers++) {
            try (DataLoader loader = DataLoader.of(mixed).batchSize(30).workers(workers).seed(2).build()) {
                Batch batch = loader.epoch(1).iterator().next();
                float[] x = batch.input().toFloats();
                float[] shares = batch.target().toFloats();
                int changed = 0;
                for (int i = 0; i < 30; i++) {
                    float[] own = Arrays.copyOfRange(shares, 3 * i, 3 * i + 3);
                    assertThat(own[0] + own[1] + own[2]).isCloseTo(1, within(1e-5f));
                    assertThat(x[2 * i + 1]).isCloseTo(1, within(1e-5f));
                    float share = own[i % 3];
                    // x = l·i + (1 - l)·k for another example k.
                    if (share < 0.99f) {
                        float other = (x[2 * i] - share * i) / (1 - share);
                        int rounded = Math.round(other);
                        assertThat(other).isCloseTo(rounded, within(1e-2f));
                        assertThat(own[Math.floorMod(rounded, 3)]).isCloseTo(1 - share, within(1e-3f));
                        changed++;
                    }
                    smallShares += Math.min(share, 1 - share);
                }
                assertThat(changed).isBetween(8, 30);
            }
        }
        assertThat(smallShares / 60).isBetween(0.02, 0.3);
        // Any power with the exponent 1/alpha is 0.
        try (DataLoader loader = DataLoader.of(Mixup.of(numbers(30), 3, 1e-20)).batchSize(30)
                .deadline(Duration.ofSeconds(10)).build()) {
            float[] shares = loader.epoch(0).iterator().next().target().toFloats();
            assertThat(shares).containsOnly(0, 1);
            assertThat(IntStream.range(0, 30).filter(i -> shares[3 * i + i % 3] == 1).count()).isBetween(8L, 29L);
        }
        assertThatThrownBy(() -> Mixup.of(numbers(3), 3, 1.5)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> Mixup.of(STREAM, 3, 1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> all(Mixup.of(numbers(9), 2, 1), 0, 0)).isInstanceOf(LoadException.class)
                .hasMessageContaining("classes must be below 2");
    }
}
