package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Model;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.loss.Loss;
import dev.starling.nn.loss.Objective;
import dev.starling.nn.optim.Adam;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.train.History;
import dev.starling.nn.train.Metric;
import dev.starling.nn.train.Scores;
import dev.starling.nn.train.Trainer;
import dev.starling.tensor.DType;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Examples of different lengths: padding, masks and batches of like lengths. */
@Timeout(60)
class SequencesTest {
    private static final int COUNT = 203;
    private static final int LONGEST = 12;
    private static final int CLASSES = 5;
    private static final long IGNORED = -100;

    /** Sequence i begins with i; its further elements are from 1 to 4. One sequence is empty, one is the longest. */
    private static List<long[]> sequences() {
        Generator g = Generator.seeded(1);
        List<long[]> all = new ArrayList<>();
        try (Scope scope = Scope.open("test")) {
            long[] lengths = g.integers(0, LONGEST + 1, COUNT).toLongs();
            lengths[7] = LONGEST;
            lengths[8] = 0;
            for (int i = 0; i < COUNT; i++) {
                long[] sequence = g.integers(1, CLASSES, LONGEST).toLongs();
                sequence[0] = i;
                all.add(Arrays.copyOf(sequence, (int) lengths[i]));
            }
        }
        return all;
    }

    private static Sequences data(List<long[]> sequences) {
        long[] numbers = new long[COUNT];
        Arrays.setAll(numbers, i -> i);
        List<long[]> tags = sequences.stream().map(s -> Arrays.stream(s).map(v -> v % CLASSES).toArray()).toList();
        return Sequences.of("tokens", sequences).mask("mask").and("tags", tags, IGNORED)
                .and("number", Tensor.of(numbers));
    }

    /** Checks the rows of a batch against the sequences, and returns its length. */
    private static int check(Batch batch, List<long[]> sequences, boolean exact) {
        int length = (int) batch.tensor("tokens").size(1);
        long[] tokens = batch.tensor("tokens").toLongs();
        long[] tags = batch.tensor("tags").toLongs();
        long[] mask = batch.tensor("mask").to(DType.I64).toLongs();
        int longest = 1;
        assertThat(batch.tensor("mask").dtype()).isEqualTo(DType.BOOL);
        for (int row = 0; row < batch.size(); row++) {
            long[] sequence = sequences.get(batch.index(row));
            longest = Math.max(longest, sequence.length);
            assertThat(batch.tensor("number").get(row).itemLong()).isEqualTo(batch.index(row));
            for (int i = 0; i < length; i++) {
                boolean inside = i < sequence.length;
                assertThat(tokens[row * length + i]).isEqualTo(inside ? sequence[i] : 0);
                assertThat(tags[row * length + i]).isEqualTo(inside ? sequence[i] % CLASSES : IGNORED);
                assertThat(mask[row * length + i]).isEqualTo(inside ? 1 : 0);
            }
        }
        assertThat(length).isGreaterThanOrEqualTo(longest);
        if (exact) {
            assertThat(length).isEqualTo(longest);
        }
        return length;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3})
    void padsToTheLongestOfABatchAndWritesMasks(int workers) {
        List<long[]> sequences = sequences();
        try (Scope scope = Scope.open("test");
                DataLoader loader = DataLoader.of(data(sequences)).batchSize(16).workers(workers).shuffle().build()) {
            for (int epoch = 0; epoch < 3; epoch++) {
                for (Batch batch : loader.epoch(epoch)) {
                    check(batch, sequences, true);
                }
            }
        }
    }

    @Test
    void putsExamplesOfLikeLengthsIntoOneBatch() {
        List<long[]> sequences = sequences();
        try (Scope scope = Scope.open("test");
                DataLoader plain = DataLoader.of(data(sequences)).batchSize(16).shuffle().build();
                DataLoader sorted = DataLoader.of(data(sequences)).batchSize(16).workers(2).shuffle().byLength()
                        .build()) {
            List<List<Integer>> orders = new ArrayList<>();
            long padded = 0;
            long unsorted = 0;
            for (int epoch = 0; epoch < 2; epoch++) {
                List<Integer> order = new ArrayList<>();
                List<Integer> lengths = new ArrayList<>();
                for (Batch batch : sorted.epoch(epoch)) {
                    int length = check(batch, sequences, true);
                    padded += (long) length * batch.size();
                    lengths.add(length);
                    for (int i = 0; i < batch.size(); i++) {
                        order.add(batch.index(i));
                    }
                }
                for (Batch batch : plain.epoch(epoch)) {
                    unsorted += batch.tensor("tokens").count();
                }
                assertThat(new TreeSet<>(order)).hasSize(COUNT);
                assertThat(order).hasSize(COUNT);
                assertThat(lengths).isNotEqualTo(lengths.stream().sorted().toList());
                orders.add(order);
            }
            long real = 2 * sequences.stream().mapToLong(s -> s.length).sum();
            assertThat(padded - real).isLessThan((unsorted - real) / 3);
            assertThat(orders.get(0)).isNotEqualTo(orders.get(1));
            List<Integer> again = new ArrayList<>();
            for (Batch batch : sorted.epoch(0)) {
                for (int i = 0; i < batch.size(); i++) {
                    again.add(batch.index(i));
                }
            }
            assertThat(again).isEqualTo(orders.getFirst());
        }
    }

    @Test
    void padsToAFewLengths() {
        List<long[]> sequences = sequences();
        try (Scope scope = Scope.open("test"); DataLoader loader = DataLoader.of(data(sequences)).batchSize(8)
                .shuffle().byLength().lengths(4, 8, LONGEST).build()) {
            TreeSet<Integer> lengths = new TreeSet<>();
            for (Batch batch : loader.epoch(0)) {
                lengths.add(check(batch, sequences, false));
            }
            assertThat(lengths).containsExactly(4, 8, LONGEST);
        }
    }

    @Test
    void dividesBatchesBetweenRanks() {
        List<long[]> sequences = sequences();
        TreeSet<Integer> seen = new TreeSet<>();
        for (int rank = 0; rank < 2; rank++) {
            try (Scope scope = Scope.open("test");
                    DataLoader loader = DataLoader.of(data(sequences)).batchSize(16).shuffle().byLength().build()) {
                loader.share(Share.part(rank, 2));
                for (Batch batch : loader.epoch(0)) {
                    check(batch, sequences, true);
                    for (int i = 0; i < batch.size(); i++) {
                        assertThat(seen.add(batch.index(i))).isTrue();
                    }
                }
            }
        }
        assertThat(seen).hasSize(COUNT);
    }

    // ---- in training ----

    private record Input(Tensor tokens, Tensor mask) { }

    private record Output(Tensor tags, Tensor kind) { }

    /** Tags each token, and classifies the mean over the tokens that the mask keeps. */
    private record Tagger(Embedding embedding, Linear tag, Linear head) implements Model<Input, Output> {
        static Tagger of() {
            Generator g = Generator.seeded(2);
            return new Tagger(Embedding.of(COUNT, 8, g), Linear.of(8, CLASSES, g), Linear.of(8, 2, g));
        }

        @Override
        public Output forward(Input in) {
            Tensor x = embedding.apply(in.tokens);
            Tensor mask = in.mask.to(x.dtype()).unsqueeze(-1);
            Tensor mean = x.mul(mask).sum(1).div(mask.sum(1).add(1e-6));
            return new Output(tag.apply(x), head.apply(mean));
        }
    }

    private static final Objective OBJECTIVE = Objective.of("tags", Loss.crossEntropy(0, IGNORED).classesIn(-1))
            .and("kind", Loss.crossEntropy());

    private static Dataset labelled(List<long[]> sequences) {
        long[] kinds = sequences.stream().mapToLong(s -> s.length > 6 ? 1 : 0).toArray();
        return data(sequences).and("kind", Tensor.of(kinds));
    }

    @Test
    void paddingChangesNoLoss() {
        List<long[]> sequences = sequences();
        try (Scope scope = Scope.open("test"); Tagger model = Tagger.of();
                DataLoader one = DataLoader.of(labelled(sequences)).batchSize(1).build();
                DataLoader all = DataLoader.of(labelled(sequences)).batchSize(COUNT).build()) {
            double tokens = 0;
            double tags = 0;
            double kinds = 0;
            for (Batch batch : one.epoch(0)) {
                Output out = model.forward(batch.record(Input.class));
                int length = sequences.get(batch.index(0)).length;
                tokens += length;
                tags += length == 0 ? 0 : length * Loss.crossEntropy().classesIn(-1).of(out.tags, batch.tensor("tags"))
                        .item();
                kinds += Loss.crossEntropy().of(out.kind, batch.tensor("kind")).item();
            }
            Scores scores = Scores.evaluate(model, OBJECTIVE, all);
            assertThat(scores.metric("tags loss")).isCloseTo(tags / tokens, within(1e-5));
            assertThat(scores.metric("kind loss")).isCloseTo(kinds / COUNT, within(1e-5));
        }
    }

    @Test
    void trainsEagerlyAndCapturedOnPaddedBatches() {
        List<long[]> sequences = sequences();
        List<History> histories = new ArrayList<>();
        for (boolean captured : new boolean[] {false, true}) {
            try (Scope scope = Scope.open("test"); Tagger model = Tagger.of();
                    Optimizer adam = Adam.over(model).rate(0.02).build();
                    DataLoader loader = DataLoader.of(labelled(sequences)).batchSize(16).shuffle().byLength()
                            .lengths(6, LONGEST).build()) {
                Trainer.Builder trainer = Trainer.of(model, OBJECTIVE, adam).data(loader).epochs(4)
                        .metrics(Metric.accuracy().on("kind"));
                histories.add((captured ? trainer.captured() : trainer).build().run());
            }
        }
        assertThat(histories.get(0).last().training().loss())
                .isLessThan(histories.get(0).epochs().getFirst().training().loss());
        for (int i = 0; i < 4; i++) {
            assertThat(histories.get(1).epochs().get(i).training()).isEqualTo(histories.get(0).epochs().get(i)
                    .training());
        }
    }

    // ---- mistakes ----

    /** States lengths that are not those of what it writes. */
    private record Wrong(int stated, int written) implements Dataset {
        @Override
        public int size() {
            return 3;
        }

        @Override
        public List<Field> fields() {
            return List.of(Field.padded("x", DType.I64, 0, 4));
        }

        @Override
        public int length(int index) {
            return stated;
        }

        @Override
        public void write(int index, Example target) {
            target.put(0, new long[written]);
        }
    }

    private static void assertFails(Dataset data, String message) {
        try (DataLoader loader = DataLoader.of(data).batchSize(2).deadline(Duration.ofSeconds(5)).build()) {
            for (int i = 0; i < 2; i++) {
                assertThatThrownBy(() -> loader.epoch(0).iterator().next()).isInstanceOf(LoadException.class)
                        .hasMessageContaining(message);
            }
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Exception> void throwUnchecked(Exception e) throws E {
        throw (E) e;
    }

    /** The data set of another language need not declare what it throws. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2})
    void reportsACheckedExceptionOfALengthWithItsBatch(int workers) {
        Dataset data = new Dataset() {
            @Override
            public int size() {
                return 3;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.padded("x", DType.I64, 0, 4));
            }

            @Override
            public int length(int index) {
                if (index == 1) {
                    SequencesTest.<RuntimeException>throwUnchecked(new IOException("the disk is gone"));
                }
                return 2;
            }

            @Override
            public void write(int index, Example target) {
                target.put(0, new long[] {index, index});
            }
        };
        try (DataLoader loader = DataLoader.of(data).batchSize(1).workers(workers).deadline(Duration.ofSeconds(5))
                .build()) {
            Iterator<Batch> batches = loader.epoch(0).iterator();
            assertThat(batches.next().index(0)).isZero();
            assertThatThrownBy(batches::next).isInstanceOf(LoadException.class)
                    .hasMessageContaining("batch 2 of epoch 1").hasCauseInstanceOf(IOException.class);
            assertThat(batches.next().index(0)).isEqualTo(2);
        }
    }

    @Test
    void refusesLengthsThatAreNotThoseOfTheExamples() {
        assertFails(new Wrong(-1, 2), "override Dataset.length");
        assertFails(new Wrong(5, 2), "at most 4");
        assertFails(new Wrong(2, 3), "more than Dataset.length states");
        List<long[]> sequences = List.of(new long[2], new long[3]);
        Sequences data = Sequences.of("x", sequences);
        assertThatThrownBy(() -> data.and("y", List.of(new long[2], new long[2]), 0))
                .hasMessageContaining("sequence 1");
        assertThatThrownBy(() -> data.and("y", List.of(new long[2]), 0)).hasMessageContaining("1 rows");
        assertThatThrownBy(() -> data.length(2)).hasMessageContaining("no example 2");
        assertThatThrownBy(() -> data.mask("x")).hasMessageContaining("already");
        assertThatThrownBy(() -> DataLoader.of(data).lengths(2).build()).hasMessageContaining("add 3");
        assertThatThrownBy(() -> DataLoader.of(data).lengths(3, 2)).hasMessageContaining("ascending");
        assertThatThrownBy(() -> DataLoader.of(new Numbers()).byLength().build()).hasMessageContaining("byLength()");
        assertThatThrownBy(() -> Field.padded("m", DType.BOOL, 1, 3)).hasMessageContaining("can only be 0");
        assertThatThrownBy(() -> Field.padded("x", DType.I32, 1L << 31, 3)).hasMessageContaining("i32, which has no");
        assertThatThrownBy(() -> Field.padded("x", DType.I64, Double.NaN, 3)).hasMessageContaining("i64, which has no");
    }

    private record Numbers() implements Dataset {
        @Override
        public int size() {
            return 3;
        }

        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) {
            target.put(0, index);
        }
    }
}
