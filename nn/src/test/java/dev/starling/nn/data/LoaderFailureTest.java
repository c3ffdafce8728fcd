package dev.starling.nn.data;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.DType;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Loaders of data sets that change, fail or are slow. */
@Timeout(60)
class LoaderFailureTest {
    /** What a data set does before it writes an example. */
    private interface Step {
        void before(int index) throws Exception;
    }

    /** The only field of example i is i. */
    private static final class Numbers implements Dataset {
        private final Step step;
        private final Field field;
        private volatile int size;
        /** The number of calls after which size() fails. */
        private volatile int calls = Integer.MAX_VALUE;

        Numbers(int size, Field field, Step step) {
            this.size = size;
            this.field = field;
            this.step = step;
        }

        Numbers(int size, Step step) {
            this(size, Field.of(DType.I64), step);
        }

        @Override
        public int size() {
            if (calls-- <= 0) {
                throw new IllegalStateException("no size");
            }
            return size;
        }

        @Override
        public List<Field> fields() {
            return List.of(field);
        }

        @Override
        public void write(int index, Example target) throws Exception {
            step.before(index);
            target.put(0, index);
        }
    }

    private static List<Long> run(DataLoader loader, int epoch) {
        List<Long> seen = new ArrayList<>();
        loader.epoch(epoch).forEach(batch -> LongStream.of(batch.input().toLongs()).forEach(seen::add));
        return seen;
    }

    private static Long[] range(int size) {
        return LongStream.range(0, size).boxed().toArray(Long[]::new);
    }

    private static void work(int ms) {
        long end = System.nanoTime() + Duration.ofMillis(ms).toNanos();
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 2})
    void readsAllExamplesOfADataSetWhoseSizeChanges(int workers) {
        Numbers numbers = new Numbers(10, i -> { });
        try (DataLoader loader = DataLoader.of(numbers).batchSize(8).workers(workers).shuffle()
                .deadline(Duration.ofSeconds(1)).build()) {
            numbers.size = 30;
            loader.share(Share.whole());
            assertThat(loader.batches()).isEqualTo(4);
            assertThat(run(loader, 0)).containsExactlyInAnyOrder(range(30));
            numbers.size = 50;
            assertThat(run(loader, 0)).containsExactlyInAnyOrder(range(50));
            numbers.size = 20;
            assertThat(run(loader, 0)).containsExactlyInAnyOrder(range(20));
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void reportsAnExampleAlthoughTheSizeOfItsDataSetFails(int workers) {
        Numbers numbers = new Numbers(4, i -> {
            throw new IllegalStateException("bad sector");
        });
        try (DataLoader loader = DataLoader.of(numbers).batchSize(2).workers(workers)
                .deadline(Duration.ofSeconds(1)).build()) {
            numbers.calls = 1;
            Iterator<Batch> batches = loader.epoch(0).iterator();
            assertThatThrownBy(batches::next).hasMessageContaining("example 0").hasMessageContaining("bad sector");
            assertThatThrownBy(batches::next).hasMessageContaining("example 2").hasMessageContaining("bad sector");
        }
    }

    @Test
    void beginsNoExampleAfterClose() throws Exception {
        CountDownLatch entered = new CountDownLatch(2);
        AtomicBoolean closing = new AtomicBoolean();
        AtomicInteger begun = new AtomicInteger();
        DataLoader loader = DataLoader.of(new Numbers(1000, i -> {
            if (closing.get()) {
                begun.incrementAndGet();
            }
            entered.countDown();
            work(20);
        })).batchSize(8).workers(2).prefetch(8).build();
        loader.epoch(0);
        entered.await();
        closing.set(true);
        loader.close();
        // Either worker may have begun one before the call.
        assertThat(begun).hasValueLessThanOrEqualTo(2);
    }

    @Test
    void entersNoFurtherBatchAfterCloseHasInterruptedAnExample() throws Exception {
        CountDownLatch entered = new CountDownLatch(1);
        CountDownLatch never = new CountDownLatch(1);
        AtomicInteger begun = new AtomicInteger();
        DataLoader loader = DataLoader.of(new Numbers(1000, i -> {
            begun.incrementAndGet();
            entered.countDown();
            never.await();
        })).batchSize(8).build();
        loader.epoch(0);
        entered.await();
        loader.close();
        assertThat(begun).hasValue(1);
    }

    @Test
    void interruptsAllWorkersBeforeItWaitsForTheFirst() throws Exception {
        CountDownLatch entered = new CountDownLatch(2);
        CountDownLatch free = new CountDownLatch(1);
        DataLoader loader = DataLoader.of(new Numbers(2, i -> {
            entered.countDown();
            boolean first = Thread.currentThread().getName().endsWith("0");
            while (free.getCount() > 0) {
                try {
                    free.await();
                } catch (InterruptedException e) {
                    if (!first) {
                        free.countDown();
                    }
                }
            }
        })).batchSize(1).workers(2).build();
        loader.epoch(0);
        entered.await();
        loader.close();
        assertThat(Thread.getAllStackTraces().keySet()).noneMatch(t -> t.getName().startsWith("starling-loader"));
    }

    @Test
    void endsAnEpochWhoseBatchesTakeLongerThanTheDeadlineTogether() {
        try (DataLoader loader = DataLoader.of(new Numbers(400, i -> work(10))).batchSize(10).prefetch(8)
                .deadline(Duration.ofMillis(400)).build()) {
            loader.epoch(0).iterator().next();
            assertThat(loader.epoch(1).iterator().next().input().toLongs()).containsExactly(0, 1, 2, 3, 4, 5, 6, 7, 8,
                    9);
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 1})
    void namesTheOptionForABatchThatDirectMemoryHasNoRoomFor(int workers) {
        Numbers large = new Numbers(2, Field.of(DType.I64, 1 << 20, 1 << 20), i -> { });
        try (DataLoader loader = DataLoader.of(large).batchSize(2).workers(workers).build()) {
            assertThatThrownBy(loader.epoch(0).iterator()::next).isInstanceOf(LoadException.class)
                    .hasMessageContaining("batch 1 of epoch 1 cannot be prepared")
                    .hasMessageContaining("-XX:MaxDirectMemorySize");
        }
    }

    @ParameterizedTest
    @CsvSource({"java.lang.OutOfMemoryError, raise -Xmx", "java.lang.StackOverflowError, -Xss",
        "java.lang.NoClassDefFoundError, finds its classes", "java.lang.InterruptedException, was interrupted",
        "java.io.IOException, repair the example"})
    void namesTheRemedyOfAFailedExample(Class<? extends Throwable> type, String remedy) throws Exception {
        Throwable cause = type.getConstructor().newInstance();
        assertThat(LoadException.ofExample(3, 5, 0, cause)).hasMessageContaining(remedy).hasCause(cause);
    }

    @ParameterizedTest
    @CsvSource({"0, true", "1, false"})
    void leavesTheThreadOfAnInterruptedReaderInterrupted(int workers, boolean interrupted) {
        try (DataLoader loader = DataLoader.of(new Numbers(2, i -> {
            if (i == 0) {
                throw new InterruptedException();
            }
        })).batchSize(1).workers(workers).build()) {
            Iterator<Batch> batches = loader.epoch(0).iterator();
            assertThatThrownBy(batches::next).hasCauseInstanceOf(InterruptedException.class);
            assertThat(Thread.interrupted()).isEqualTo(interrupted);
            assertThat(batches.next().input().toLongs()).containsExactly(1);
        }
    }
}
