package dev.starling.nn.serve;

import dev.starling.errors.ThreadException;
import dev.starling.nn.Module;
import dev.starling.nn.serve.PredictionException.Reason;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Function;
import java.util.function.UnaryOperator;

/**
 * Computes requests of any number of threads in batches, on a thread of its own. It does not know the form in which
 * callers pass examples: {@link Predictor} and {@link RecordPredictor} do.
 *
 * @param <M> the form of the model
 */
final class BatchServer<M extends Module> implements AutoCloseable {
    private static final long CLOSE_NANOS = TimeUnit.SECONDS.toNanos(30);

    private final PredictorBuilder.Settings settings;
    private final List<Spec> examples;
    private final Function<M, UnaryOperator<Tensor[]>> forward;
    private final RequestQueue queue;
    private final List<Spec> outputs;
    /** Held while a batch is computed; fair, so that a swap under load waits for one batch only. */
    private final ReentrantLock serving = new ReentrantLock(true);
    private M model;
    private BatchedModel batched;
    private boolean closed;
    private final Thread thread;

    private final Latencies latencies = new Latencies();
    private final LongAdder answered = new LongAdder();
    private final LongAdder refused = new LongAdder();
    private final LongAdder timedOut = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final LongAdder batches = new LongAdder();

    /**
     * Captures the model and starts the thread.
     *
     * @param examples type and shape of each input for one example
     * @param forward returns a model as a function of its inputs, for batches
     */
    BatchServer(M model, List<Spec> examples, Function<M, UnaryOperator<Tensor[]>> forward,
            PredictorBuilder.Settings settings) {
        this.settings = settings;
        this.examples = examples;
        this.forward = forward;
        this.model = model;
        queue = new RequestQueue(settings.maxQueue());
        batched = new BatchedModel(forward.apply(model), model.device(), examples, settings.maxBatch());
        outputs = batched.outputs();
        try {
            thread = ThreadException.start(Thread.ofPlatform().daemon().name("starling-predictor")
                    .unstarted(this::serve));
        } catch (ThreadException e) {
            batched.close();
            throw e;
        }
    }

    /** Returns the type and shape of each input for one example. */
    List<Spec> examples() {
        return examples;
    }

    /** Returns the type and shape of each output for one example. */
    List<Spec> outputs() {
        return outputs;
    }

    Duration timeout() {
        return settings.timeout();
    }

    // ---- the calling threads ----

    /** Returns the outputs for one example as new tensors in host memory, which the current scope owns. */
    Tensor[] predict(Tensor[] example, Duration timeout) {
        for (int i = 0; i < example.length; i++) {
            Spec spec = examples.get(i);
            if (example[i].dtype() != spec.dtype() || !example[i].shape().equals(spec.shape())) {
                throw new TensorException(TensorException.Problem.SHAPE, "predict", List.of(example[i].spec()),
                        "the example must be " + spec.dtype() + spec.shape(),
                        "pass one example, without the dimension of the batch");
            }
        }
        try (Scope scope = Scope.open("predict")) {
            Tensor[] inputs = Arrays.stream(example).map(t -> t.to(Device.cpu()).contiguous()).toArray(Tensor[]::new);
            Tensor[] results = outputs.stream().map(Storage::allocate).toArray(Tensor[]::new);
            predict(segments(inputs), segments(results), timeout);
            for (Tensor result : results) {
                scope.keep(result);
            }
            return results;
        }
    }

    private static MemorySegment[] segments(Tensor[] tensors) {
        return Arrays.stream(tensors).map(Tensor::segment).toArray(MemorySegment[]::new);
    }

    /** Computes the outputs for one example. */
    void predict(MemorySegment[] inputs, MemorySegment[] results, Duration timeout) {
        requireOtherThread("predict", "call the layer that computes the result instead");
        Request request = new Request(inputs, results, timeout);
        try {
            queue.add(request);
            request.await();
        } catch (PredictionException e) {
            switch (e.reason()) {
                case REFUSED -> refused.increment();
                case TIMEOUT -> {
                    queue.remove(request);
                    timedOut.increment();
                }
                case INTERRUPTED -> queue.remove(request);
                case FAILED -> failed.increment();
                case CLOSED -> { }
            }
            throw e;
        }
        answered.increment();
        latencies.add(System.nanoTime() - request.startNanos());
    }

    /** Replaces the model between two batches; returns the old one. */
    M swap(M fresh) {
        requireOtherThread("swap", "call it on another thread");
        BatchedModel next = new BatchedModel(forward.apply(fresh), fresh.device(), examples, settings.maxBatch());
        try {
            if (!next.outputs().equals(outputs)) {
                throw new TensorException(TensorException.Problem.SHAPE, "swap", next.outputs(),
                        "the new model must return what the old one does, " + outputs, "make another predictor");
            }
            serving.lock();
            try {
                if (closed) {
                    throw RequestQueue.closedException();
                }
                M old = model;
                BatchedModel idle = batched;
                model = fresh;
                batched = next;
                next = idle;
                return old;
            } finally {
                serving.unlock();
            }
        } finally {
            next.close();
        }
    }

    /** Refuses a call of the model, which runs in the batch that the call would have to wait for. */
    private void requireOtherThread(String operation, String remedy) {
        if (Thread.currentThread() == thread) {
            throw TensorException.argument("predictor", "the model calls " + operation + "() of the predictor that "
                    + "waits for its result", remedy);
        }
    }

    PredictorStats stats() {
        return new PredictorStats(answered.sum(), refused.sum(), timedOut.sum(), failed.sum(), batches.sum(),
                latencies.quantile(0.5), latencies.quantile(0.99), latencies.quantile(1));
    }

    /** Answers the requests that wait, stops the thread and frees the memory. */
    @Override
    public void close() {
        requireOtherThread("close", "call it on another thread");
        queue.close();
        boolean interrupted = false;
        long deadline = System.nanoTime() + CLOSE_NANOS + Math.min(TimeUnit.NANOSECONDS.convert(settings.timeout()),
                Long.MAX_VALUE - CLOSE_NANOS);
        try {
            while (thread.isAlive()) {
                try {
                    if (!thread.join(Duration.ofNanos(Math.max(0, deadline - System.nanoTime())))) {
                        throw new PredictionException(Reason.TIMEOUT, "the predictor's thread did not stop; the model "
                                + "hangs in forward");
                    }
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        serving.lock();
        try {
            closed = true;
            batched.close();
        } finally {
            serving.unlock();
        }
    }

    // ---- the thread of this server ----

    private void serve() {
        List<Request> taken = new ArrayList<>(settings.maxBatch());
        long delayNanos = TimeUnit.NANOSECONDS.convert(settings.maxDelay());
        while (queue.take(taken, settings.maxBatch(), delayNanos)) {
            serving.lock();
            try {
                answer(taken);
            } catch (Throwable e) { // Memory may run out for a moment: the thread serves later requests.
                for (int i = 0; i < taken.size(); i++) {
                    taken.get(i).fail(e);
                }
            } finally {
                serving.unlock();
            }
            taken.clear();
        }
    }

    private void answer(List<Request> taken) {
        List<Request> batch = new ArrayList<>(taken.size());
        for (Request request : taken) {
            if (request.read(batched.inputs().row(batch.size()))) {
                batch.add(request);
            }
        }
        if (batch.isEmpty()) {
            return;
        }
        batches.increment();
        try {
            batched.run(batch.size(), rows -> {
                for (int i = 0; i < batch.size(); i++) {
                    batch.get(i).answer(rows.row(i));
                }
            });
        } catch (Throwable e) { // A model in another language may throw a checked exception.
            if (batch.size() == 1) {
                batch.getFirst().fail(e);
            } else {
                answerOneByOne(batch);
            }
        }
    }

    private void answerOneByOne(List<Request> batch) {
        for (int i = 0; i < batch.size(); i++) {
            Request request = batch.get(i);
            batched.inputs().copy(i, 0);
            try {
                batched.run(1, rows -> request.answer(rows.row(0)));
            } catch (Throwable e) {
                request.fail(e);
            }
        }
    }
}
