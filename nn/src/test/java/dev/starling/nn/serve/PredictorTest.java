package dev.starling.nn.serve;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.Layer;
import dev.starling.nn.Model;
import dev.starling.nn.Sequential;
import dev.starling.nn.layer.Embedding;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.model.Networks;
import dev.starling.nn.serve.PredictionException.Reason;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.MemoryUse;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Timeout(60)
class PredictorTest {
    /** Doubles its input once the gate is open. It reads elements, so it cannot be captured and runs for each batch. */
    private static final class Gate implements Layer {
        private final CountDownLatch entered = new CountDownLatch(1);
        private final CountDownLatch open = new CountDownLatch(1);
        private volatile boolean armed;

        @Override
        public Tensor forward(Tensor x) {
            x.toFloats();
            if (armed) {
                entered.countDown();
                await(open);
            }
            return x.mul(2);
        }

        @Override
        public void close() {
            open.countDown();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(30, TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    private static <T> List<Future<T>> start(ExecutorService threads, int n, Callable<T> task) {
        List<Future<T>> started = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            started.add(threads.submit(task));
        }
        return started;
    }

    private static Reason reason(Future<?> future) throws Exception {
        try {
            future.get(30, TimeUnit.SECONDS);
            return null;
        } catch (ExecutionException e) {
            return e.getCause() instanceof PredictionException p ? p.reason() : null;
        }
    }

    private static float[] forward(Layer model, float... example) {
        try (Scope scope = Scope.open("test")) {
            return model.forward(Tensor.of(example, 1, example.length)).toFloats();
        }
    }

    @Test
    void answersEachOfManyThreadsWithTheResultOfItsExample() throws Exception {
        try (Sequential model = Networks.mlp(Generator.seeded(1), 6, 16, 3);
                Predictor predictor = Predictor.of(model, 6).maxBatch(24).build();
                ExecutorService threads = Executors.newFixedThreadPool(64)) {
            List<Future<Void>> clients = new ArrayList<>();
            for (int i = 0; i < 64; i++) {
                int client = i;
                clients.add(threads.submit(() -> {
                    float[] result = new float[3];
                    for (int k = 0; k < 20; k++) {
                        float[] example = {client, k, 1, -client, 0.5f, k * client};
                        predictor.predict(example, result, Duration.ofSeconds(30));
                        assertThat(result).containsExactly(forward(model, example), within(1e-3f));
                    }
                    return null;
                }));
            }
            for (Future<Void> client : clients) {
                client.get(30, TimeUnit.SECONDS);
            }
            PredictorStats stats = predictor.stats();
            assertThat(stats.answered()).isEqualTo(64 * 20);
            assertThat(stats.batches()).isBetween(64 * 20 / 24L, 64 * 20L);
            assertThat(stats.p50()).isPositive().isLessThanOrEqualTo(stats.p99());
            assertThat(stats.p99()).isLessThanOrEqualTo(stats.longest());
        }
    }

    /** As where the predictor's thread has no memory for a batch. */
    @Test
    void aRequestFailsBeforeItsExampleIsRead() {
        Request request = new Request(new MemorySegment[0], new MemorySegment[0], Duration.ofSeconds(30));
        assertThat(request.fail(new OutOfMemoryError("of a test"))).isTrue();
        assertThat(request.read(new MemorySegment[0])).isFalse();
        assertThatThrownBy(request::await).isInstanceOfSatisfying(PredictionException.class,
                e -> assertThat(e.reason()).isEqualTo(Reason.FAILED)).hasMessageContaining("of a test");
    }

    @Test
    void computesOneExampleAsTheModelDoesBitForBit() {
        try (Sequential model = Networks.mlp(Generator.seeded(1), 5, 8, 2);
                Predictor predictor = Predictor.of(model, 5).build()) {
            float[] example = {1, -2, 3, -4, 5};
            assertThat(predictor.predict(example)).isEqualTo(forward(model, example));
        }
    }

    @Test
    void closesWithoutATimeout() {
        try (Sequential model = Networks.mlp(Generator.seeded(1), 3, 2);
                Predictor predictor = Predictor.of(model, 3).timeout(ChronoUnit.FOREVER.getDuration()).build()) {
            assertThat(predictor.predict(new float[] {1, 2, 3})).hasSize(2);
        }
    }

    /** The model waits until all threads have called, which they can only if none of them pins its carrier. */
    @Test
    void pinsNoCarrierOfVirtualThreads() throws Exception {
        int n = 3000;
        CountDownLatch calling = new CountDownLatch(n);
        AtomicBoolean armed = new AtomicBoolean();
        Layer model = x -> {
            x.toFloats();
            if (armed.get()) {
                await(calling);
            }
            return x.mul(2);
        };
        try (Predictor predictor = Predictor.of(model, 1).maxQueue(n).timeout(Duration.ofSeconds(40)).build();
                ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            armed.set(true);
            List<Future<Float>> results = new ArrayList<>();
            for (int i = 0; i < n; i++) {
                float number = i;
                results.add(threads.submit(() -> {
                    calling.countDown();
                    return predictor.predict(new float[] {number})[0];
                }));
            }
            for (int i = 0; i < n; i++) {
                assertThat(results.get(i).get(50, TimeUnit.SECONDS)).isEqualTo(2f * i);
            }
            assertThat(predictor.stats().meanBatch()).isGreaterThan(8);
        }
    }

    @Test
    void answersEachRequestFromOneModelWhileModelsAreSwapped() throws Exception {
        AtomicBoolean ended = new AtomicBoolean();
        try (Predictor predictor = Predictor.of(x -> x.mul(1), 4).maxBatch(4).build();
                ExecutorService threads = Executors.newFixedThreadPool(8)) {
            List<Future<Integer>> clients = start(threads, 8, () -> {
                int answers = 0;
                float last = 1;
                while (!ended.get()) {
                    float[] y = predictor.predict(new float[] {1, 2, 4, 8});
                    assertThat(y[0]).isGreaterThanOrEqualTo(last);
                    assertThat(y).containsExactly(y[0], 2 * y[0], 4 * y[0], 8 * y[0]);
                    last = y[0];
                    answers++;
                }
                return answers;
            });
            for (int i = 2; i <= 30; i++) {
                int factor = i;
                predictor.swap(x -> x.mul(factor));
                assertThat(predictor.predict(new float[] {1, 0, 0, 0})[0]).isEqualTo(factor);
            }
            ended.set(true);
            int answers = 29;
            for (Future<Integer> client : clients) {
                answers += client.get(30, TimeUnit.SECONDS);
            }
            assertThat(predictor.stats().answered()).isEqualTo(answers);
        }
    }

    @Test
    void keepsServingTheOldModelWhenAnotherDoesNotFit() {
        Generator generator = Generator.seeded(1);
        try (Layer model = Linear.of(3, 2, generator); Layer wider = Linear.of(3, 5, generator);
                Layer other = Linear.of(4, 2, generator); Predictor predictor = Predictor.of(model, 3).build()) {
            float[] before = predictor.predict(new float[] {1, 2, 3});
            assertThatThrownBy(() -> predictor.swap(wider)).isInstanceOf(TensorException.class)
                    .hasMessageContaining("f32[2]");
            assertThatThrownBy(() -> predictor.swap(other)).isInstanceOf(TensorException.class);
            assertThat(predictor.predict(new float[] {1, 2, 3})).isEqualTo(before);
            try (Layer fitting = Linear.of(3, 2, generator)) {
                assertThat(predictor.swap(fitting)).isSameAs(model);
                assertThat(predictor.swap(model)).isSameAs(fitting);
            }
        }
    }

    @Test
    void refusesWhatDoesNotFitIntoTheQueue() throws Exception {
        try (Gate gate = new Gate();
                Predictor predictor = Predictor.of(gate, 1).maxBatch(1).maxQueue(2).build();
                ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            gate.armed = true;
            Future<float[]> running = threads.submit(() -> predictor.predict(new float[] {3}));
            await(gate.entered);
            CountDownLatch refused = new CountDownLatch(4);
            List<Future<float[]>> others = start(threads, 6, () -> {
                try {
                    return predictor.predict(new float[] {4});
                } catch (PredictionException e) {
                    refused.countDown();
                    throw e;
                }
            });
            await(refused);
            gate.open.countDown();
            assertThat(running.get(30, TimeUnit.SECONDS)).containsExactly(6);
            List<Reason> reasons = new ArrayList<>();
            for (Future<float[]> other : others) {
                reasons.add(reason(other));
            }
            assertThat(reasons).containsOnly(null, Reason.REFUSED);
            assertThat(reasons.stream().filter(Reason.REFUSED::equals)).hasSize(4);
            assertThat(predictor.stats().refused()).isEqualTo(4);
            assertThat(predictor.stats().answered()).isEqualTo(3);
        }
    }

    @Test
    void takesRequestsWhileManyOthersAreRefusedAgainAndAgain() {
        RequestQueue queue = new RequestQueue(4);
        AtomicBoolean done = new AtomicBoolean();
        Runnable client = () -> {
            while (!done.get()) {
                try {
                    queue.add(new Request(new MemorySegment[0], new MemorySegment[0], Duration.ofMinutes(1)));
                } catch (PredictionException e) {
                    assertThat(e.reason()).isEqualTo(Reason.REFUSED);
                }
            }
        };
        for (int i = 0; i < 64; i++) {
            Thread.startVirtualThread(client);
        }
        try {
            long begin = System.nanoTime();
            List<Request> taken = new ArrayList<>();
            for (int i = 0; i < 500; i++) {
                queue.take(taken, 4, 0);
                taken.clear();
                assertThat(Duration.ofNanos(System.nanoTime() - begin)).as("after %d batches", i)
                        .isLessThan(Duration.ofSeconds(10));
            }
        } finally {
            done.set(true);
        }
    }

    @Test
    void endsARequestAtItsDeadlineWithoutTouchingItsResult() throws Exception {
        try (Gate gate = new Gate(); Predictor predictor = Predictor.of(gate, 1).maxBatch(1).build();
                ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            gate.armed = true;
            float[] running = {-1};
            float[] waiting = {-1};
            Future<?> first = threads.submit(() -> predictor.predict(new float[] {3}, running, Duration.ofSeconds(1)));
            await(gate.entered);
            assertThatThrownBy(() -> predictor.predict(new float[] {3}, waiting, Duration.ofMillis(20)))
                    .isInstanceOf(PredictionException.class).hasMessageContaining("20 ms")
                    .hasMessageContaining("in the queue");
            assertThat(reason(first)).isEqualTo(Reason.TIMEOUT);
            gate.open.countDown();
            assertThat(predictor.predict(new float[] {5})).containsExactly(10);
            assertThat(running).containsExactly(-1);
            assertThat(waiting).containsExactly(-1);
            assertThat(predictor.stats().timedOut()).isEqualTo(2);
        }
    }

    @Test
    void givesThePlaceOfARequestThatTimedOutToAnother() throws Exception {
        try (Gate gate = new Gate(); Predictor predictor = Predictor.of(gate, 1).maxBatch(1).maxQueue(1).build();
                ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            gate.armed = true;
            Future<float[]> running = threads.submit(() -> predictor.predict(new float[] {3}));
            await(gate.entered);
            for (int i = 0; i < 2; i++) {
                assertThatThrownBy(() -> predictor.predict(new float[] {4}, new float[1], Duration.ofMillis(5)))
                        .hasMessageContaining("in the queue");
            }
            gate.open.countDown();
            assertThat(running.get(30, TimeUnit.SECONDS)).containsExactly(6);
        }
    }

    @Test
    void endsARequestWhoseThreadIsInterrupted() throws Exception {
        try (Gate gate = new Gate(); Predictor predictor = Predictor.of(gate, 1).maxBatch(1).build()) {
            gate.armed = true;
            AtomicBoolean stillInterrupted = new AtomicBoolean();
            List<Reason> reasons = new ArrayList<>();
            Thread client = Thread.ofVirtual().start(() -> {
                try {
                    predictor.predict(new float[] {3});
                } catch (PredictionException e) {
                    reasons.add(e.reason());
                    stillInterrupted.set(Thread.currentThread().isInterrupted());
                }
            });
            await(gate.entered);
            client.interrupt();
            assertThat(client.join(Duration.ofSeconds(30))).isTrue();
            gate.open.countDown();
            assertThat(reasons).containsExactly(Reason.INTERRUPTED);
            assertThat(stillInterrupted).isTrue();
        }
    }

    @Test
    void answersWhatWaitsWhenItCloses() throws Exception {
        try (Gate gate = new Gate(); ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            Predictor predictor = Predictor.of(gate, 1).maxBatch(2).maxQueue(4).build();
            gate.armed = true;
            CountDownLatch refused = new CountDownLatch(1);
            Future<float[]> running = threads.submit(() -> predictor.predict(new float[] {1}));
            await(gate.entered);
            List<Future<Reason>> others = start(threads, 5, () -> {
                try {
                    assertThat(predictor.predict(new float[] {2})).containsExactly(4);
                    return null;
                } catch (PredictionException e) {
                    refused.countDown();
                    return e.reason();
                }
            });
            await(refused);                                 // now four wait
            Future<?> closing = threads.submit(predictor::close);
            gate.open.countDown();
            closing.get(30, TimeUnit.SECONDS);
            assertThat(running.get(30, TimeUnit.SECONDS)).containsExactly(2);
            List<Reason> reasons = new ArrayList<>();
            for (Future<Reason> other : others) {
                reasons.add(other.get(30, TimeUnit.SECONDS));
            }
            assertThat(reasons).containsExactlyInAnyOrder(null, null, null, null, Reason.REFUSED);
            assertThatThrownBy(() -> predictor.predict(new float[] {1})).isInstanceOfSatisfying(
                    PredictionException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CLOSED));
            assertThatThrownBy(() -> predictor.swap(x -> x.mul(3))).isInstanceOfSatisfying(
                    PredictionException.class, e -> assertThat(e.reason()).isEqualTo(Reason.CLOSED));
            predictor.close();
        }
    }

    /** Four requests make one batch, because it waits for them; the embedding then rejects the whole batch. */
    @Test
    void failsOnlyTheExampleThatTheModelRejects() throws Exception {
        try (Embedding model = Embedding.of(10, 3, Generator.seeded(1));
                Predictor predictor = Predictor.of(model, new Spec(DType.I64, Shape.of(2), Device.cpu())).maxBatch(4)
                        .maxDelay(Duration.ofSeconds(20)).build();
                ExecutorService threads = Executors.newFixedThreadPool(4)) {
            List<Future<float[]>> results = new ArrayList<>();
            for (long id : new long[] {1, 2, 99, 4}) {
                results.add(threads.submit(() -> {
                    try (Scope scope = Scope.open("client")) {
                        Tensor y = predictor.predict(Tensor.of(new long[] {id, 0}));
                        assertThat(scope.owns(y)).isTrue();
                        assertThat(y.shape()).isEqualTo(Shape.of(2, 3));
                        assertThat(y.toFloats()).isEqualTo(model.forward(Tensor.of(new long[] {id, 0})).toFloats());
                        return y.toFloats();
                    }
                }));
            }
            List<Reason> reasons = new ArrayList<>();
            for (Future<float[]> result : results) {
                reasons.add(reason(result));
            }
            assertThat(reasons).containsExactly(null, null, Reason.FAILED, null);
            assertThat(predictor.stats().batches()).isEqualTo(1);
            assertThat(predictor.stats().failed()).isEqualTo(1);
        }
    }

    /** An application's model may check its input by an assertion. */
    @Test
    void failsOnlyTheExampleForWhichTheModelThrowsAnError() throws Exception {
        Layer model = x -> {
            for (float number : x.toFloats()) {
                if (number == 13) {
                    throw new AssertionError("there is no such number");
                }
            }
            return x.mul(2);
        };
        assertFailsOnly13(model);
    }

    /** Kotlin and Scala do not declare checked exceptions. */
    @Test
    void failsOnlyTheExampleForWhichTheModelThrowsACheckedException() throws Exception {
        Layer model = x -> {
            for (float number : x.toFloats()) {
                if (number == 13) {
                    throwUnchecked(new IOException("there is no such number"));
                }
            }
            return x.mul(2);
        };
        assertFailsOnly13(model);
    }

    /** Predicts for 4 and 13 in one batch, with a model that doubles and throws at 13. */
    private static void assertFailsOnly13(Layer model) throws Exception {
        try (Predictor predictor = Predictor.of(model, 1).maxBatch(2).maxDelay(Duration.ofSeconds(20)).build();
                ExecutorService threads = Executors.newFixedThreadPool(2)) {
            Future<float[]> good = threads.submit(() -> predictor.predict(new float[] {4}));
            Future<float[]> bad = threads.submit(() -> predictor.predict(new float[] {13}));
            assertThat(reason(bad)).isEqualTo(Reason.FAILED);
            assertThat(good.get(30, TimeUnit.SECONDS)).containsExactly(8);
        }
    }

    @SuppressWarnings("unchecked")
    private static <E extends Exception> void throwUnchecked(Exception e) throws E {
        throw (E) e;
    }

    /** Two requests make one batch, because it waits for them; for one the model calls its own predictor. */
    @Test
    void failsOnlyTheExampleForWhichTheModelClosesOrSwapsItself() throws Exception {
        AtomicReference<Predictor> own = new AtomicReference<>();
        Layer model = x -> {
            for (float number : x.toFloats()) {
                if (number == 13) {
                    own.get().swap(y -> y.mul(3));
                } else if (number == 14) {
                    own.get().close();
                }
            }
            return x.mul(2);
        };
        try (Predictor predictor = Predictor.of(model, 1).maxBatch(2).maxDelay(Duration.ofSeconds(20)).build();
                ExecutorService threads = Executors.newFixedThreadPool(2)) {
            own.set(predictor);
            for (float forbidden : new float[] {13, 14}) {
                Future<float[]> good = threads.submit(() -> predictor.predict(new float[] {4}));
                Future<float[]> bad = threads.submit(() -> predictor.predict(new float[] {forbidden}));
                assertThat(good.get(30, TimeUnit.SECONDS)).containsExactly(8);
                assertThatThrownBy(() -> bad.get(30, TimeUnit.SECONDS)).hasMessageContaining("on another thread");
            }
        }
    }

    /** The result could not come before the timeout, because it needs the batch that calls. */
    @Test
    void failsAtOnceIfTheModelCallsItsOwnPredictor() {
        AtomicReference<Predictor> own = new AtomicReference<>();
        Layer model = x -> {
            x.toFloats();
            if (own.get() != null) {
                own.get().predict(new float[] {1});
            }
            return x.mul(2);
        };
        try (Predictor predictor = Predictor.of(model, 1).timeout(Duration.ofSeconds(5)).build()) {
            own.set(predictor);
            assertThatThrownBy(() -> predictor.predict(new float[] {4})).isInstanceOfSatisfying(
                    PredictionException.class, e -> assertThat(e.reason()).isEqualTo(Reason.FAILED))
                    .hasMessageContaining("the model calls predict() of the predictor")
                    .hasMessageContaining("call the layer");
        }
    }

    @Test
    void namesTheRemedyIfTheModelWasClosedOrConverted() {
        for (Consumer<Layer> change : List.<Consumer<Layer>>of(Layer::close, model -> model.to(DType.BF16))) {
            try (Sequential model = Networks.mlp(Generator.seeded(1), 5, 2);
                    Predictor predictor = Predictor.of(model, 5).maxBatch(2).build()) {
                assertThat(predictor.predict(new float[5])).hasSize(2);
                change.accept(model);
                assertThatThrownBy(() -> predictor.predict(new float[5])).isInstanceOf(PredictionException.class)
                        .hasMessageContaining("was closed, converted or moved")
                        .hasMessageContaining("swap()").hasMessageNotContaining("capture");
            }
        }
    }

    /** The model reads elements, so it is not captured and may return another shape each time. */
    @Test
    void failsARequestWhoseResultHasAnotherShapeThanTheFirst() {
        AtomicInteger width = new AtomicInteger(2);
        Layer model = x -> {
            x.toFloats();
            return x.narrow(1, 0, width.get());
        };
        try (Predictor predictor = Predictor.of(model, 3).maxBatch(2).build()) {
            for (int other : new int[] {1, 3}) {
                width.set(other);
                assertThatThrownBy(() -> predictor.predict(new float[] {1, 2, 3}))
                        .isInstanceOfSatisfying(PredictionException.class,
                                e -> assertThat(e.reason()).isEqualTo(Reason.FAILED))
                        .hasMessageContaining("f32[" + other + "]").hasMessageContaining("f32[2]")
                        .hasCauseInstanceOf(TensorException.class);
                width.set(2);
                assertThat(predictor.predict(new float[] {1, 2, 3})).containsExactly(1, 2);
            }
        }
    }

    @Test
    void endsARequestWhoseMemoryCannotBeCopied() {
        MemorySegment[] one = {MemorySegment.ofArray(new float[1])};
        MemorySegment[] none = {MemorySegment.ofArray(new float[0])};
        Request unread = new Request(none, one, Duration.ofSeconds(30));
        assertThat(unread.read(one)).isFalse();
        Request unanswered = new Request(one, one, Duration.ofSeconds(30));
        assertThat(unanswered.read(one)).isTrue();
        assertThat(unanswered.answer(none)).isFalse();
        for (Request request : List.of(unread, unanswered)) {
            assertThatThrownBy(request::await).isInstanceOfSatisfying(PredictionException.class,
                    e -> assertThat(e.reason()).isEqualTo(Reason.FAILED))
                    .hasCauseInstanceOf(IndexOutOfBoundsException.class);
        }
    }

    /** The inputs of {@link Priced}: numbers of two types and shapes. */
    record Goods(Tensor ids, Tensor weights) { }

    /** The results of {@link Priced}. */
    record Prices(Tensor each, Tensor total) { }

    /** Prices are those of the ids in a table times the weights. */
    record Priced(Embedding table) implements Model<Goods, Prices> {
        @Override
        public Prices forward(Goods in) {
            Tensor each = table.apply(in.ids()).squeeze(-1).mul(in.weights());
            return new Prices(each, each.sum(1));
        }
    }

    @Test
    void servesModelsOfSeveralInputsAndResults() throws Exception {
        Goods example = new Goods(Tensor.of(new long[] {0, 0}), Tensor.zeros(2));
        try (Priced model = new Priced(Embedding.of(10, 1, Generator.seeded(1)));
                Priced dearer = new Priced(Embedding.of(10, 1, Generator.seeded(2)));
                RecordPredictor<Goods, Prices> predictor = RecordPredictor.of(model, example).build();
                ExecutorService threads = Executors.newVirtualThreadPerTaskExecutor()) {
            for (Priced served : List.of(model, dearer)) {
                float[] table = served.table().weight().master().toFloats();
                List<Future<Void>> clients = new ArrayList<>();
                for (int i = 0; i < 20; i++) {
                    int id = i % 10;
                    clients.add(threads.submit(() -> {
                        try (Scope scope = Scope.open("client")) {
                            Prices prices = predictor.predict(new Goods(Tensor.of(new long[] {id, 3}),
                                    Tensor.of(new float[] {2, id})));
                            assertThat(prices.each().toFloats()).containsExactly(2 * table[id], id * table[3]);
                            assertThat((float) prices.total().item()).isCloseTo(2 * table[id] + id * table[3],
                                    within(1e-5f));
                            assertThat(scope.owns(prices.each()) && scope.owns(prices.total())).isTrue();
                        }
                        return null;
                    }));
                }
                for (Future<Void> client : clients) {
                    client.get(30, TimeUnit.SECONDS);
                }
                assertThat(predictor.swap(dearer)).isIn(model, dearer);
            }
            assertThat(predictor.stats().answered()).isEqualTo(40);
            assertThatThrownBy(() -> predictor.predict(new Goods(example.weights(), example.ids())))
                    .isInstanceOf(TensorException.class).hasMessageContaining("i64[2]");
        }
    }

    @Test
    void namesWhatDoesNotFit() {
        try (Sequential model = Networks.mlp(Generator.seeded(1), 5, 2);
                Predictor predictor = Predictor.of(model, 5).build()) {
            assertThatThrownBy(() -> predictor.predict(new float[4])).isInstanceOf(TensorException.class)
                    .hasMessageContaining("5 elements, got 4");
            assertThatThrownBy(() -> predictor.predict(Tensor.zeros(1, 5))).isInstanceOf(TensorException.class)
                    .hasMessageContaining("f32[5]");
            assertThatThrownBy(() -> Predictor.of(model, 4).build()).isInstanceOf(TensorException.class);
            assertThatThrownBy(() -> Predictor.of(x -> x.sum(), 4).build()).isInstanceOf(TensorException.class)
                    .hasMessageContaining("first dimension");
            assertThatThrownBy(() -> Predictor.of(model, 5).maxBatch(0)).isInstanceOf(TensorException.class);
        }
    }

    @Test
    void keepsMemoryFlatFor100000Requests() {
        int requests = 100_000;
        try (Sequential model = Networks.mlp(Generator.seeded(1), 20, 30, 4);
                Predictor predictor = Predictor.of(model, 20).build();
                ExecutorService threads = Executors.newFixedThreadPool(8)) {
            predictor.predict(new float[20]);
            MemoryUse before = Device.cpu().memory();
            long heap = usedHeap();
            for (Future<?> client : start(threads, 8, () -> {
                float[] example = new float[20];
                float[] result = new float[4];
                for (int i = 0; i < requests / 8; i++) {
                    Arrays.fill(example, i);
                    predictor.predict(example, result, Duration.ofSeconds(30));
                }
                return null;
            })) {
                assertThat(client).succeedsWithin(Duration.ofMinutes(9));
            }
            MemoryUse after = Device.cpu().memory();
            assertThat(after.allocations()).isEqualTo(before.allocations());
            // The thread's first batch of each size keeps some memory; a request that kept any would keep 64 bytes.
            assertThat(after.live()).isLessThan(before.live() + 32 * requests);
            assertThat(predictor.stats().answered()).isEqualTo(requests + 1);
            // An object for each request that stayed reachable would be 16 bytes or more.
            assertThat(usedHeap() - heap).isLessThan(10L * requests);
        }
    }

    private static long usedHeap() {
        System.gc();
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }
}
