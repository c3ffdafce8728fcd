package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.sun.management.ThreadMXBean;
import dev.starling.tensor.DType;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Random;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class DataLoaderTest {
    /** Batches after which the JVM has compiled the loop over batches, which by then makes no temporary objects. */
    private static final int WARM_UP = 10_000;

    /** The first field of example i is (i, epoch), the second is i. */
    private record Numbers(int size) implements Dataset {
        @Override
        public List<Field> fields() {
            return List.of(Field.of(DType.F32, 2), Field.of(DType.I64));
        }

        @Override
        public void write(int index, Example target) throws Exception {
            float[] x = target.floats(0);
            x[0] = index;
            x[1] = target.epoch();
            target.put(0, x);
            target.put(1, index);
        }
    }

    private static List<String> run(DataLoader loader, int epoch, int first) {
        List<String> seen = new ArrayList<>();
        for (Batch batch : loader.epoch(epoch, first)) {
            seen.add(batch.number() + Arrays.toString(batch.input().toFloats())
                    + Arrays.toString(batch.target().toLongs()));
        }
        return seen;
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3, 7})
    void deliversTheSameBatchesWithAnyNumberOfWorkers(int workers) {
        try (DataLoader loader = DataLoader.of(new Numbers(103)).batchSize(10).workers(workers).seed(5).shuffle()
                .build();
                DataLoader plain = DataLoader.of(new Numbers(103)).batchSize(10).workers(0).seed(5).shuffle().build()) {
            for (int epoch = 0; epoch < 20; epoch++) {
                List<String> batches = run(loader, epoch, 0);
                assertThat(batches).hasSize(11).isEqualTo(run(plain, epoch, 0));
                assertThat(run(loader, epoch, 4)).isEqualTo(batches.subList(4, 11));
            }
        }
    }

    @Test
    void deliversEveryExampleOncePerEpochInANewOrder() {
        try (DataLoader loader = DataLoader.of(new Numbers(50)).batchSize(7).workers(2).shuffle().build()) {
            long[] first = order(loader, 0);
            long[] second = order(loader, 1);
            assertThat(first).hasSize(50).isNotEqualTo(second);
            assertThat(Arrays.stream(first).sorted().toArray()).isEqualTo(IntStream.range(0, 50).asLongStream()
                    .toArray());
            assertThat(Arrays.stream(second).sorted().toArray()).isEqualTo(Arrays.stream(first).sorted().toArray());
        }
    }

    private static long[] order(DataLoader loader, int epoch) {
        List<Long> order = new ArrayList<>();
        for (Batch batch : loader.epoch(epoch)) {
            Arrays.stream(batch.target().toLongs()).forEach(order::add);
        }
        return order.stream().mapToLong(i -> i).toArray();
    }

    @Test
    void ignoresChangesOfItsBuilderAfterBuild() {
        DataLoader.Builder builder = DataLoader.of(new Numbers(103)).batchSize(10).workers(2).seed(5).shuffle();
        try (DataLoader loader = builder.build();
                DataLoader plain = DataLoader.of(new Numbers(103)).batchSize(10).workers(0).seed(5).shuffle().build()) {
            builder.batchSize(7).workers(0).seed(6).dropLast().prefetch(2).deadline(Duration.ofNanos(1));
            assertThat(run(loader, 3, 0)).isEqualTo(run(plain, 3, 0));
            assertThat(loader.batches()).isEqualTo(11);
            assertThat(loader.seed()).isEqualTo(5);
        }
    }

    @Test
    void waitsWithoutADeadline() {
        try (DataLoader loader = DataLoader.of(new Numbers(5)).batchSize(2).deadline(ChronoUnit.FOREVER.getDuration())
                .build()) {
            assertThat(order(loader, 0)).containsExactly(0, 1, 2, 3, 4);
        }
    }

    @Test
    void keepsTheOrderOfTheSetWithoutShuffling() {
        try (DataLoader loader = DataLoader.of(new Numbers(5)).batchSize(2).build()) {
            assertThat(order(loader, 3)).containsExactly(0, 1, 2, 3, 4);
            assertThat(loader.batches()).isEqualTo(3);
            assertThat(loader.examples()).isEqualTo(5);
        }
        try (DataLoader loader = DataLoader.of(new Numbers(5)).batchSize(2).dropLast().build()) {
            assertThat(order(loader, 3)).containsExactly(0, 1, 2, 3);
            assertThat(loader.examples()).isEqualTo(4);
        }
        try (DataLoader loader = DataLoader.of(new Numbers(0)).batchSize(2).build()) {
            assertThat(order(loader, 0)).isEmpty();
        }
    }

    @Test
    void dividesTheExamplesIntoShards() {
        List<Long> all = new ArrayList<>();
        for (int rank = 0; rank < 3; rank++) {
            try (DataLoader loader = DataLoader.of(new Numbers(32)).batchSize(4).shuffle().build()
                    .share(Share.shard(rank, 3))) {
                long[] part = order(loader, 0);
                assertThat(part).hasSize(10);
                Arrays.stream(part).forEach(all::add);
            }
        }
        assertThat(all).hasSize(30).doesNotHaveDuplicates();
    }

    @Test
    void startsANewEpochAfterAnAbandonedOne() {
        try (DataLoader loader = DataLoader.of(new Numbers(100)).batchSize(3).workers(2).build()) {
            for (int i = 0; i < 50; i++) {
                Iterator<Batch> epoch = loader.epoch(i).iterator();
                for (int k = 0; k < i % 5; k++) {
                    assertThat(epoch.next().target().toLongs()).startsWith(3L * k);
                }
                assertThat(loader.epoch(i + 1).iterator().next().epoch()).isEqualTo(i + 1);
                assertThatThrownBy(epoch::hasNext).isInstanceOf(NoSuchElementException.class);
                assertThatThrownBy(epoch::next).isInstanceOf(NoSuchElementException.class)
                        .hasMessageContaining("another pass over the data of this loader has begun");
            }
        }
    }

    @Test
    void anotherPassWithinALoopIsAnError() {
        try (DataLoader loader = DataLoader.of(new Numbers(30)).batchSize(3).workers(2).build()) {
            for (int at : new int[] {3, 10}) {
                int[] seen = new int[1];
                ThrowingCallable loop = () -> {
                    for (Batch batch : loader.epoch(0)) {
                        assertThat(batch.size()).isEqualTo(3);
                        if (++seen[0] == at) {
                            assertThat(order(loader, 0)).hasSize(30);
                        }
                    }
                };
                if (at < 10) {
                    assertThatThrownBy(loop).hasMessageContaining("another pass over the data of this loader");
                } else {
                    assertThatCode(loop).as("another pass after the last batch").doesNotThrowAnyException();
                }
                assertThat(seen[0]).isEqualTo(at);
            }
        }
    }

    @Test
    void eachLoopOverAnEpochReadsItAll() {
        try (DataLoader loader = DataLoader.of(new Numbers(30)).batchSize(3).workers(2).build()) {
            Iterable<Batch> kept = loader.epoch(0, 4);
            for (int pass = 0; pass < 3; pass++) {
                int seen = 0;
                for (Batch batch : kept) {
                    assertThat(batch.number()).isEqualTo(4 + seen++);
                }
                assertThat(seen).isEqualTo(6);
            }
            Iterable<Batch> other = loader.epoch(1);
            assertThat(kept.iterator().next().epoch()).isZero();
            assertThat(other.iterator().next().epoch()).isEqualTo(1);
            Iterator<Batch> first = other.iterator();
            other.iterator().next();
            assertThatThrownBy(first::hasNext).hasMessageContaining("another pass");
        }
    }

    /** A worker would look for the examples before the first. */
    @Test
    void refusesToStartBeforeTheFirstBatch() {
        try (DataLoader loader = DataLoader.of(new Numbers(9)).batchSize(4).shuffle().build()) {
            assertThatThrownBy(() -> loader.epoch(0, -1)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("the first batch must be >= 0, got -1");
            assertThat(order(loader, 0)).hasSize(9);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void closesABatchWhenTheNextOneIsRequested(int workers) {
        try (DataLoader loader = DataLoader.of(new Numbers(40)).batchSize(8).workers(workers).build()) {
            Iterator<Batch> batches = loader.epoch(0).iterator();
            Batch first = batches.next();
            Tensor kept = first.input();
            Tensor view = kept.narrow(0, 0, 2);
            Tensor copy = kept.copy();
            assertThat(kept.isClosed()).isFalse();
            // All slots of the ring are used again.
            for (int i = 0; i < 4; i++) {
                assertThat(batches.next().target().toLongs()[0]).isEqualTo(8 * (i + 1));
                for (Tensor closed : List.of(kept, view, first.target())) {
                    assertThatThrownBy(() -> closed.add(1)).hasMessageContaining("closed by the data loader, which "
                            + "uses its memory again").hasMessageContaining("copy() it while it is open");
                }
                assertThatThrownBy(kept::toFloats).isInstanceOf(TensorException.class);
            }
            assertThat(copy.toFloats()).startsWith(0, 0, 1, 0, 2);
            assertThat(first.number() + " " + first.size() + " " + first.index(3)).isEqualTo("0 8 3");
            Batch last = loader.epoch(1).iterator().next();
            loader.epoch(2);
            assertThat(last.input().isClosed()).isTrue();
        }
    }

    @Test
    void namesTheErrorOfADataSetThatLeavesItsBounds() {
        Dataset tooLarge = new Dataset() {
            @Override
            public int size() {
                return 5;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.of(DType.I64));
            }

            @Override
            public void write(int index, Example target) {
                target.put(0, new long[] {1, 2, 3, 4}[index]);
            }
        };
        try (DataLoader loader = DataLoader.of(tooLarge).batchSize(5).workers(0).build()) {
            Iterator<Batch> batches = loader.epoch(0).iterator();
            assertThatThrownBy(batches::next).isInstanceOf(LoadException.class)
                    .hasMessageContaining("Dataset.write failed for example 4 in epoch 1")
                    .hasMessageContaining("size() is 5: the error is in Dataset.write");
        }
    }

    /** The memory of a batch has been that of an earlier one, whose labels would remain. */
    @Test
    void refusesAnExampleOfWhichAFieldWasNotWritten() {
        Dataset forgetful = ListDataset.of(List.of(1, 2), List.of(Field.of(DType.F32), Field.of(DType.I64)),
                (number, example) -> example.put(0, new float[] {number}));
        for (Dataset data : List.of(forgetful, ConcatDataset.of(forgetful, forgetful), forgetful.named("x", "y"))) {
            try (DataLoader loader = DataLoader.of(data).build()) {
                assertThatThrownBy(() -> loader.epoch(0).iterator().next()).isInstanceOf(LoadException.class)
                        .hasMessageContaining("nothing was written to field 1, ").hasMessageContaining("i64");
            }
        }
    }

    /** The second element would be that of an earlier batch. */
    @Test
    void refusesOneElementForAFieldOfSeveral() {
        Dataset pairs = ListDataset.of(List.of(1, 2), List.of(Field.of(DType.I64, 2)),
                (number, example) -> example.put(0, number));
        try (DataLoader loader = DataLoader.of(pairs).build()) {
            assertThatThrownBy(() -> loader.epoch(0).iterator().next()).isInstanceOf(LoadException.class)
                    .hasMessageContaining("field 0 is i64[2], got one element");
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void reportsTheFailedExampleAndContinuesWithTheNextBatch(int workers) {
        Dataset broken = new Dataset() {
            @Override
            public int size() {
                return 20;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.of(DType.I64));
            }

            @Override
            public void write(int index, Example target) throws Exception {
                if (index == 7) {
                    throw new IOException("bad sector");
                }
                target.put(0, index);
            }
        };
        try (DataLoader loader = DataLoader.of(broken).batchSize(5).workers(workers).build()) {
            Iterator<Batch> epoch = loader.epoch(0).iterator();
            epoch.next();
            assertThatThrownBy(epoch::next).isInstanceOf(LoadException.class).hasMessageContaining("example 7")
                    .hasMessageContaining("bad sector").hasCauseInstanceOf(IOException.class)
                    .extracting(e -> ((LoadException) e).index()).isEqualTo(7);
            assertThat(epoch.next().target().toLongs()).containsExactly(10, 11, 12, 13, 14);
            assertThat(epoch.next().target().toLongs()).startsWith(15);
            assertThat(epoch.hasNext()).isFalse();
        }
    }

    @Test
    void waitsWithADeadlineAndEndsAllThreadsOnClose() {
        CountDownLatch never = new CountDownLatch(1);
        Dataset stuck = new Dataset() {
            @Override
            public int size() {
                return 20;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.of(DType.I64));
            }

            @Override
            public void write(int index, Example target) throws Exception {
                never.await();
            }
        };
        DataLoader loader = DataLoader.of(stuck).workers(3).deadline(Duration.ofMillis(50)).build();
        Iterator<Batch> epoch = loader.epoch(0).iterator();
        assertThatThrownBy(epoch::next).isInstanceOf(LoadException.class).hasMessageContaining("waited 50 ms for")
                .hasMessageContaining("batch 1 of epoch 1");
        loader.close();
        assertThat(Thread.getAllStackTraces().keySet()).noneMatch(t -> t.getName().startsWith("starling-loader"));
        assertThatThrownBy(() -> loader.epoch(1)).isInstanceOf(LoadException.class);
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void reportsABatchThatCannotBePreparedAndContinuesWithTheNext(int workers) {
        Dataset broken = new Dataset() {
            @Override
            public int size() {
                return 4;
            }

            @Override
            public List<Field> fields() {
                return List.of(Field.padded("x", DType.I64, 0, 1));
            }

            @Override
            public int length(int index) {
                if (index == 1) {
                    throw new AssertionError("no length");
                }
                return 1;
            }

            @Override
            public void write(int index, Example target) {
                target.put(0, index);
            }
        };
        try (DataLoader loader = DataLoader.of(broken).batchSize(1).workers(workers).build()) {
            for (int epoch = 0; epoch < 3; epoch++) {
                Iterator<Batch> batches = loader.epoch(epoch).iterator();
                assertThat(batches.next().input().toLongs()).containsExactly(0);
                assertThatThrownBy(batches::next).isInstanceOf(LoadException.class)
                        .hasMessageContaining("batch 2 of epoch " + (epoch + 1) + " cannot be prepared")
                        .hasRootCauseMessage("no length");
                assertThat(batches.next().input().toLongs()).containsExactly(2);
                assertThat(batches.next().input().toLongs()).containsExactly(3);
                assertThat(batches.hasNext()).isFalse();
            }
        }
    }

    @Test
    void waitsForItsWorkersWhenAnInterruptedThreadClosesIt() throws Exception {
        CountDownLatch entered = new CountDownLatch(1);
        AtomicBoolean ended = new AtomicBoolean();
        Dataset slow = ListDataset.of(List.of(1), List.of(Field.of(DType.I64)), (number, example) -> {
            entered.countDown();
            long end = System.nanoTime() + Duration.ofMillis(200).toNanos();
            while (System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            example.put(0, number);
            ended.set(true);
        });
        DataLoader loader = DataLoader.of(slow).workers(1).build();
        loader.epoch(0);
        entered.await();
        Thread.currentThread().interrupt();
        loader.close();
        assertThat(Thread.interrupted()).isTrue();
        assertThat(ended).isTrue();
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 2})
    void continuesAfterADataSetHasInterruptedItsThread(int workers) {
        Dataset interrupting = ListDataset.of(List.of(0, 1, 2, 3, 4, 5, 6, 7), List.of(Field.of(DType.I64)),
                (number, example) -> {
                    example.put(0, number);
                    Thread.currentThread().interrupt();
                });
        try (DataLoader loader = DataLoader.of(interrupting).batchSize(1).workers(workers).prefetch(2)
                .deadline(Duration.ofSeconds(5)).build()) {
            for (int epoch = 0; epoch < 2; epoch++) {
                List<Long> seen = new ArrayList<>();
                loader.epoch(epoch).forEach(batch -> seen.add(batch.input().toLongs()[0]));
                assertThat(seen).containsExactly(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L);
            }
        }
        assertThat(Thread.getAllStackTraces().keySet()).noneMatch(t -> t.getName().startsWith("starling-loader"));
    }

    @Test
    void startsNoThreadIfTheDataSetFailsToNameItsFields() {
        AtomicInteger calls = new AtomicInteger();
        Dataset failing = new Dataset() {
            @Override
            public int size() {
                return 4;
            }

            @Override
            public List<Field> fields() {
                if (calls.get() > 0 && calls.decrementAndGet() == 0) {
                    throw new IllegalStateException("no fields");
                }
                return List.of(Field.of(DType.I64));
            }

            @Override
            public void write(int index, Example target) {
                target.put(0, index);
            }
        };
        for (int call = 1; call <= 20; call++) {
            calls.set(call);
            try (DataLoader loader = DataLoader.of(failing).workers(3).build()) {
                assertThat(loader.size()).isEqualTo(4);
            } catch (IllegalStateException expected) {
                assertThat(expected).hasMessage("no fields");
            }
            assertThat(Thread.getAllStackTraces().keySet()).as("after a failure of call " + call)
                    .noneMatch(t -> t.getName().startsWith("starling-loader"));
        }
    }

    @Test
    void allocatesAlmostNothingInTheSteadyState() {
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (DataLoader loader = DataLoader.of(new Numbers(1 << 18)).batchSize(16).workers(1).shuffle().build()) {
            int batches = 0;
            long before = 0;
            Tensor input = null;
            for (Batch batch : loader.epoch(0)) {
                input = batch.input();
                if (batches++ == WARM_UP) {
                    before = allocated(threads);
                }
            }
            assertThat(input).isNotNull();
            // The remaining allocations are the handles of the batch and its two tensors, and queue nodes of threads
            // that wait for each other. An object for each of the 16 examples would add at least 256 bytes.
            assertThat((allocated(threads) - before) / (double) (batches - WARM_UP)).isLessThan(600);
        }
    }

    private static long allocated(ThreadMXBean threads) {
        long sum = threads.getCurrentThreadAllocatedBytes();
        for (Thread thread : Thread.getAllStackTraces().keySet()) {
            if (thread.getName().startsWith("starling-loader")) {
                sum += threads.getThreadAllocatedBytes(thread.threadId());
            }
        }
        return sum;
    }

    @Test
    void readsRowsOfTensors() {
        try (Scope scope = Scope.open()) {
            Tensor x = Tensor.of(new float[] {1, 2, 3, 4, 5, 6}, 3, 2);
            Tensor y = Tensor.of(new int[] {7, 8, 9});
            try (DataLoader loader = DataLoader.of(TensorDataset.of(x, y)).batchSize(2).build()) {
                Iterator<Batch> epoch = loader.epoch(0).iterator();
                Batch first = epoch.next();
                assertThat(first.input().shape().dims()).containsExactly(2, 2);
                assertThat(first.input().toFloats()).containsExactly(1, 2, 3, 4);
                Batch last = epoch.next();
                assertThat(last.size()).isEqualTo(1);
                assertThat(last.input().toFloats()).containsExactly(5, 6);
                assertThat(last.target().toLongs()).containsExactly(9);
            }
        }
    }

    @Test
    void readsEveryExampleOnce() {
        AtomicInteger reads = new AtomicInteger();
        Numbers numbers = new Numbers(500);
        Dataset counted = new Dataset() {
            @Override
            public int size() {
                return numbers.size();
            }

            @Override
            public List<Field> fields() {
                return numbers.fields();
            }

            @Override
            public void write(int index, Example target) throws Exception {
                reads.incrementAndGet();
                numbers.write(index, target);
            }
        };
        try (DataLoader loader = DataLoader.of(counted).batchSize(8).workers(3).build()) {
            assertThat(order(loader, 0)).hasSize(500);
        }
        assertThat(reads).hasValue(500);
    }

    @Test
    void augmentsImages() {
        byte[] pixels = new byte[6 * 3 * 4 * 4];
        new Random(1).nextBytes(pixels);
        LabelledImages images = new LabelledImages(3, 4, 4, 6, pixels, new byte[] {0, 1, 2, 3, 4, 5});
        Augment augment = Augment.normalize(3, 4, 4, new float[3], new float[] {1, 1, 1}).randomCrop(1).randomFlip();
        try (DataLoader loader = DataLoader.of(ImageDataset.of(images, augment)).batchSize(4).seed(9).shuffle()
                .build()) {
            for (Batch batch : loader.epoch(2)) {
                float[] expected = new float[batch.size() * 48];
                for (int i = 0; i < batch.size(); i++) {
                    augment.write(9, 2, batch.index(i), pixels, images.offset(batch.index(i)), expected, i * 48);
                    assertThat(batch.target().toLongs()[i]).isEqualTo(batch.index(i));
                }
                assertThat(batch.input().toFloats()).containsExactly(expected);
            }
        }
    }

    @Test
    void refusesTensorsOfMoreRowsThanADataSetHas() {
        assertThatThrownBy(() -> TensorDataset.of(Tensor.zeros(1L << 31, 0))).isInstanceOf(TensorException.class)
                .hasMessageContaining("fewer than 2^31 rows").hasMessageContaining("[2147483648, 0]");
        assertThat(TensorDataset.of(Tensor.zeros(Integer.MAX_VALUE, 0)).size()).isEqualTo(Integer.MAX_VALUE);
    }
}
