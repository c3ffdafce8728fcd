package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class StreamDatasetTest {
    private static final List<Field> FIELDS = List.of(Field.of(DType.I64));

    private static StreamDataset<Integer> numbers(int length, int examples) {
        return StreamDataset.of(() -> IntStream.range(0, length).iterator(), examples, FIELDS, (i, e) -> e.put(0, i));
    }

    private static List<Long> read(DataLoader loader, int epoch, int first) {
        List<Long> read = new ArrayList<>();
        for (Batch batch : loader.epoch(epoch, first)) {
            Arrays.stream(batch.input().toLongs()).forEach(read::add);
        }
        return read;
    }

    private static List<Long> range(long from, long to) {
        return LongStream.range(from, to).boxed().toList();
    }

    @Test
    void readsCollectionsThroughAFunction() {
        record Person(double age, int group) { }

        Dataset people = ListDataset.of(List.of(new Person(30, 1), new Person(50, 0)),
                List.of(Field.of(DType.F32, 1), Field.of(DType.I64)), (person, example) -> {
                    example.put(0, new float[] {(float) person.age()});
                    example.put(1, person.group());
                });
        try (DataLoader loader = DataLoader.of(people).build()) {
            Batch batch = loader.epoch(0).iterator().next();
            assertThat(batch.input().toFloats()).containsExactly(30, 50);
            assertThat(batch.target().toLongs()).containsExactly(1, 0);
        }
    }

    @Test
    void readsInOrderAndStartsAgainEachEpoch() {
        for (int workers = 0; workers < 2; workers++) {
            try (DataLoader loader = DataLoader.of(numbers(100, 10)).batchSize(4).workers(workers).build()) {
                assertThat(read(loader, 0, 0)).isEqualTo(range(0, 10));
                assertThat(read(loader, 0, 0)).isEqualTo(range(0, 10));
                assertThat(read(loader, 1, 0)).isEqualTo(range(0, 10));
                // Resumes at the third batch.
                assertThat(read(loader, 2, 2)).isEqualTo(range(8, 10));
            }
        }
    }

    @Test
    void startsASourceAgainThatEndsWithinAnEpoch() {
        try (DataLoader loader = DataLoader.of(numbers(4, 10)).batchSize(10).build()) {
            assertThat(read(loader, 0, 0)).containsExactly(0L, 1L, 2L, 3L, 0L, 1L, 2L, 3L, 0L, 1L);
        }
    }

    @Test
    void shufflesWithinItsBuffer() {
        try (DataLoader loader = DataLoader.of(numbers(100, 100).shuffle(10)).batchSize(8).seed(3).build();
                DataLoader other = DataLoader.of(numbers(100, 100).shuffle(10)).batchSize(8).seed(3).workers(0).build();
                DataLoader seeded = DataLoader.of(numbers(100, 100).shuffle(10)).batchSize(8).seed(4).build()) {
            List<Long> order = read(loader, 0, 0);
            assertThat(order).doesNotHaveDuplicates().hasSize(100).isNotEqualTo(range(0, 100));
            // Element k is drawn when the buffer contains nothing after k + 9.
            for (int k = 0; k < 100; k++) {
                assertThat(order.get(k)).isLessThan(k + 10);
            }
            assertThat(IntStream.range(0, 100).filter(k -> order.get(k) > k + 4).count()).isGreaterThan(10);
            assertThat(read(other, 0, 0)).isEqualTo(order);
            assertThat(read(other, 0, 5)).isEqualTo(order.subList(40, 100));
            assertThat(read(other, 1, 0)).isNotEqualTo(order);
            assertThat(read(seeded, 0, 0)).isNotEqualTo(order);
        }
    }

    @Test
    void givesEachRankItsPartOfTheBatches() {
        List<Long> all = new ArrayList<>();
        for (int rank = 0; rank < 3; rank++) {
            try (DataLoader loader = DataLoader.of(numbers(100, 23).shuffle(5)).batchSize(6).build()
                    .share(new Share.Part(rank, rank + 1, 3))) {
                all.addAll(read(loader, 0, 0));
            }
        }
        Collections.sort(all);
        assertThat(all).doesNotHaveDuplicates().hasSize(23);
    }

    @Test
    void continuesAnIteratorThatTheSupplierReturnsAgain() {
        Iterator<Integer> endless = IntStream.iterate(0, i -> i + 1).iterator();
        StreamDataset<Integer> stream = StreamDataset.of(() -> endless, 10, FIELDS, (i, e) -> e.put(0, i));
        try (DataLoader loader = DataLoader.of(stream).batchSize(5).workers(0).build()) {
            assertThat(read(loader, 0, 0)).isEqualTo(range(0, 10));
            assertThat(read(loader, 1, 0)).isEqualTo(range(10, 20));
        }
        Iterator<Integer> buffered = IntStream.range(0, 40).iterator();
        StreamDataset<Integer> shuffled = StreamDataset.<Integer>of(() -> buffered, 20, FIELDS, (i, e) -> e.put(0, i))
                .shuffle(7);
        try (DataLoader loader = DataLoader.of(shuffled).batchSize(5).workers(0).build()) {
            List<Long> both = read(loader, 0, 0);
            both.addAll(read(loader, 1, 0));
            assertThat(both).as("no element of the buffer is lost between epochs").doesNotHaveDuplicates().hasSize(40);
        }
    }

    /** What is left of the source of the epoch before must not become this epoch's. */
    @Test
    void startsTheSourceAnewAfterItCouldNotBeStarted() {
        AtomicInteger starts = new AtomicInteger();
        StreamDataset<Integer> stream = StreamDataset.of(() -> {
            if (starts.incrementAndGet() == 2) {
                throw new IllegalStateException("no connection");
            }
            return IntStream.range(0, 100).iterator();
        }, 10, FIELDS, (i, e) -> e.put(0, i));
        try (DataLoader loader = DataLoader.of(stream).batchSize(5).workers(0).build()) {
            assertThat(read(loader, 0, 0)).isEqualTo(range(0, 10));
            assertThatThrownBy(() -> read(loader, 1, 0)).hasMessageContaining("no connection");
            assertThat(read(loader, 1, 0)).isEqualTo(range(0, 10));
        }
    }

    @Test
    void startsTheSourceAnewAfterItsFirstObjectsCouldNotBeRead() {
        AtomicInteger failures = new AtomicInteger(1);
        StreamDataset<Integer> stream = StreamDataset.<Integer>of(() -> IntStream.range(0, 100).map(i -> {
            if (i == 3 && failures.getAndDecrement() > 0) {
                throw new IllegalStateException("no connection");
            }
            return i;
        }).iterator(), 20, FIELDS, (i, e) -> e.put(0, i)).shuffle(8);
        try (DataLoader loader = DataLoader.of(stream).batchSize(5).workers(0).build();
                DataLoader intact = DataLoader.of(numbers(100, 20).shuffle(8)).batchSize(5).workers(0).build()) {
            assertThatThrownBy(() -> read(loader, 0, 0)).hasMessageContaining("no connection");
            assertThat(read(loader, 0, 0)).isEqualTo(read(intact, 0, 0));
        }
    }

    @Test
    void closesIteratorsThatCanBeClosed() {
        AtomicInteger open = new AtomicInteger();
        AtomicInteger started = new AtomicInteger();

        class Rows implements Iterator<Integer>, AutoCloseable {
            private int next;

            @Override
            public boolean hasNext() {
                return next < 3;
            }

            @Override
            public Integer next() {
                return next++;
            }

            @Override
            public void close() {
                open.decrementAndGet();
            }
        }

        StreamDataset<Integer> stream = StreamDataset.of(() -> {
            open.incrementAndGet();
            started.incrementAndGet();
            return new Rows();
        }, 10, FIELDS, (i, e) -> e.put(0, i));
        try (DataLoader loader = DataLoader.of(stream).batchSize(5).workers(0).build()) {
            read(loader, 0, 0);
        }
        assertThat(started).hasValue(4);
        assertThat(open).hasValue(1);
    }

    @Test
    void refusesWhatCannotBeReadInOrder() {
        assertThatThrownBy(() -> DataLoader.of(numbers(9, 9)).shuffle().build()).isInstanceOf(TensorException.class)
                .hasMessageContaining("StreamDataset.shuffle").hasMessageContaining("and shuffle()");
        assertThatThrownBy(() -> DataLoader.of(numbers(9, 9)).workers(2).build()).isInstanceOf(TensorException.class)
                .hasMessageContaining("2 worker(s)");
        assertThatThrownBy(() -> numbers(9, -1)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> numbers(9, 9).shuffle(0)).isInstanceOf(TensorException.class);
        try (DataLoader loader = DataLoader.of(numbers(0, 9)).workers(0).build()) {
            assertThatThrownBy(() -> read(loader, 0, 0)).isInstanceOf(LoadException.class)
                    .hasMessageContaining("has ended before example 0");
        }
    }
}
