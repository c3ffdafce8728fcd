package dev.starling.nn.serve;

import dev.starling.nn.Layer;
import dev.starling.nn.serve.PredictionException.Reason;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Storage;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Serves a model to any number of platform and virtual threads. Requests that arrive together are computed together,
 * by a thread of the predictor, in captured programs whose memory is allocated when the predictor is made.
 *
 * <pre>{@code
 * try (Predictor predictor = Predictor.of(model, 784).maxBatch(32).build()) {
 *     float[] scores = predictor.predict(pixels);     // from any thread
 * }
 * }</pre>
 *
 * <p>The model must compute each example independently of the others in its batch, as layers in inference mode do. A
 * request that the predictor cannot answer ends with a {@link PredictionException}. If the model fails for a batch, its
 * examples are computed again one by one, so that only those that cause the failure fail. The predictor does not own
 * the model: close the model after the predictor.
 */
public final class Predictor implements AutoCloseable {
    private final Builder config;
    private final RequestQueue queue;
    private final List<Spec> outputs;
    /** Held while a batch is computed; fair, so that a swap under load waits for one batch only. */
    private final ReentrantLock serving = new ReentrantLock(true);
    private Layer model;
    private BatchedModel batched;
    private boolean closed;
    private final Thread thread;

    private final Latencies latencies = new Latencies();
    private final LongAdder answered = new LongAdder();
    private final LongAdder refused = new LongAdder();
    private final LongAdder timedOut = new LongAdder();
    private final LongAdder failed = new LongAdder();
    private final LongAdder batches = new LongAdder();

    private Predictor(Builder config) {
        this.config = config;
        queue = new RequestQueue(config.maxQueue);
        model = config.model;
        batched = config.batched(model);
        outputs = batched.outputs();
        thread = Thread.ofPlatform().daemon().name("starling-predictor").start(this::serve);
    }

    /** Starts a predictor of a model with one input, whose examples are f32 of this shape: {@code 784}. */
    public static Builder of(Layer model, long... example) {
        return of(model, new Spec(DType.F32, Shape.of(example), Device.cpu()));
    }

    /**
     * Starts a predictor of a model with one input.
     *
     * @param example type and shape of one example, without the dimension of the batch; its device has no effect
     */
    public static Builder of(Layer model, Spec example) {
        return new Builder(model, example);
    }

    // ---- predictions ----

    /** Returns the result for one example; see {@link #predict(float[], float[], Duration)}. */
    public float[] predict(float[] example) {
        float[] result = new float[(int) output(DType.F32).shape().count()];
        predict(example, result, config.timeout);
        return result;
    }

    /**
     * Computes the result for one example.
     *
     * @param example the elements in row-major order, which must not change until this returns or throws
     * @param result receives the elements of the result in row-major order
     * @param timeout how long this may take
     * @throws PredictionException if there is no result; {@code result} is then unchanged
     * @throws TensorException if input and output of the model are not f32, or an array does not have their size
     */
    public void predict(float[] example, float[] result, Duration timeout) {
        if (config.example.dtype() != DType.F32) {
            throw new TensorException(TensorException.Problem.DTYPE, "predict", List.of(config.example),
                    "an array of floats needs an f32 input", "use predict(Tensor)");
        }
        requireCount(example.length, config.example, "example");
        requireCount(result.length, output(DType.F32), "result");
        await(MemorySegment.ofArray(example), MemorySegment.ofArray(result), timeout);
    }

    private static void requireCount(int length, Spec spec, String what) {
        if (length != spec.shape().count()) {
            throw new TensorException(TensorException.Problem.SHAPE, "predict", List.of(spec), "the " + what
                    + " must have " + spec.shape().count() + " elements, got " + length,
                    "pass the elements of one example, without the dimension of the batch");
        }
    }

    private Spec output(DType dtype) {
        Spec output = outputs.getFirst();
        if (output.dtype() != dtype) {
            throw new TensorException(TensorException.Problem.DTYPE, "predict", List.of(output),
                    "an array of floats needs an f32 result", "use predict(Tensor)");
        }
        return output;
    }

    /** Returns the result for one example; see {@link #predict(Tensor, Duration)}. */
    public Tensor predict(Tensor example) {
        return predict(example, config.timeout);
    }

    /**
     * Returns the result for one example.
     *
     * @param example of the example's type and shape, without the dimension of the batch; must not be changed or closed
     *     until this returns or throws
     * @param timeout how long this may take
     * @return a new tensor in host memory, which the current scope of the calling thread owns
     * @throws PredictionException if there is no result
     * @throws TensorException if the example has another type or shape
     */
    public Tensor predict(Tensor example, Duration timeout) {
        if (example.dtype() != config.example.dtype() || !example.shape().equals(config.example.shape())) {
            throw new TensorException(TensorException.Problem.SHAPE, "predict", List.of(example.spec()),
                    "the example must be " + config.example.dtype() + config.example.shape(),
                    "pass one example, without the dimension of the batch");
        }
        try (Scope scope = Scope.open("predict")) {
            Tensor input = example.to(Device.cpu()).contiguous();
            Tensor result = Storage.allocate(outputs.getFirst());
            await(input.segment(), result.segment(), timeout);
            return scope.keep(result);
        }
    }

    private void await(MemorySegment input, MemorySegment output, Duration timeout) {
        Request request = new Request(new MemorySegment[] {input}, new MemorySegment[] {output}, timeout);
        try {
            queue.add(request);
            request.await();
        } catch (PredictionException e) {
            switch (e.reason()) {
                case REFUSED -> refused.increment();
                case TIMEOUT -> timedOut.increment();
                case FAILED -> failed.increment();
                case CLOSED, INTERRUPTED -> { }
            }
            throw e;
        }
        answered.increment();
        latencies.add(System.nanoTime() - request.startNanos());
    }

    // ---- the predictor's thread ----

    private void serve() {
        List<Request> taken = new ArrayList<>();
        long delayNanos = TimeUnit.NANOSECONDS.convert(config.maxDelay);
        while (queue.take(taken, config.maxBatch, delayNanos)) {
            serving.lock();
            try {
                answer(taken);
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
        } catch (RuntimeException e) {
            if (batch.size() == 1) {
                batch.getFirst().fail(e);
            } else {
                answerOneByOne(batch);
            }
        } catch (Error e) {
            batch.forEach(request -> request.fail(e));
        }
    }

    private void answerOneByOne(List<Request> batch) {
        for (int i = 0; i < batch.size(); i++) {
            Request request = batch.get(i);
            batched.inputs().copy(i, 0);
            try {
                batched.run(1, rows -> request.answer(rows.row(0)));
            } catch (RuntimeException | Error e) {
                request.fail(e);
            }
        }
    }

    // ---- the model ----

    /**
     * Serves another model from the next batch on. The new model is captured and warmed up on the calling thread while
     * the old one serves; then this waits for the batch in progress. Each answer is from one of the two models, and
     * answers to requests that begin after this has returned are from the new one.
     *
     * @param fresh takes the same examples and returns results of the same type and shape
     * @return the old model, which the predictor does not use any more, for the caller to close
     * @throws TensorException if the new model does not fit; the old one continues to serve
     * @throws PredictionException if the predictor is closed
     */
    public Layer swap(Layer fresh) {
        BatchedModel next = config.batched(fresh);
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
                Layer old = model;
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

    /** Returns what this predictor has done so far. */
    public PredictorStats stats() {
        return new PredictorStats(answered.sum(), refused.sum(), timedOut.sum(), failed.sum(), batches.sum(),
                latencies.quantile(0.5), latencies.quantile(0.99), latencies.quantile(1));
    }

    /**
     * Refuses further requests, answers those that wait, stops the thread and frees the memory. Closing twice has no
     * effect.
     *
     * @throws PredictionException if the thread does not stop within the timeout of requests and 30 s; its memory is
     *     then not freed
     */
    @Override
    public void close() {
        queue.close();
        boolean interrupted = false;
        long deadline = System.nanoTime() + TimeUnit.NANOSECONDS.convert(config.timeout.plusSeconds(
                Builder.CLOSE_SECONDS));
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
        serving.lock();
        try {
            closed = true;
            batched.close();
        } finally {
            serving.unlock();
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Collects the settings of a predictor. */
    public static final class Builder {
        static final int CLOSE_SECONDS = 30;
        private static final Duration TIMEOUT = Duration.ofSeconds(10);

        private final Layer model;
        private final Spec example;
        private int maxBatch = 32;
        private int maxQueue = 1024;
        private Duration maxDelay = Duration.ZERO;
        private Duration timeout = TIMEOUT;

        private Builder(Layer model, Spec example) {
            this.model = model;
            this.example = example;
        }

        private Builder(Builder other) {
            this(other.model, other.example);
            maxBatch = other.maxBatch;
            maxQueue = other.maxQueue;
            maxDelay = other.maxDelay;
            timeout = other.timeout;
        }

        private BatchedModel batched(Layer layer) {
            return new BatchedModel(in -> new Tensor[] {layer.apply(in[0])}, layer.device(), List.of(example),
                    maxBatch);
        }

        /** Sets the maximum number of examples that are computed together; default 32. */
        public Builder maxBatch(int examples) {
            maxBatch = requirePositive("maxBatch", examples);
            return this;
        }

        /**
         * Sets how long the first example of a batch waits for others; default 0: a batch consists of the requests that
         * wait when the one before it is complete.
         */
        public Builder maxDelay(Duration delay) {
            if (delay.isNegative()) {
                throw TensorException.argument("predictor", "maxDelay must be 0 or more, got " + delay,
                        "give a longer delay");
            }
            maxDelay = delay;
            return this;
        }

        /** Sets how many requests may wait; a further one is refused. Default 1,024. */
        public Builder maxQueue(int requests) {
            maxQueue = requirePositive("maxQueue", requests);
            return this;
        }

        /** Sets how long a prediction without a timeout of its own may take; default 10 s. */
        public Builder timeout(Duration duration) {
            if (!duration.isPositive()) {
                throw TensorException.argument("predictor", "the timeout must be positive, got " + duration,
                        "give a longer timeout");
            }
            timeout = duration;
            return this;
        }

        private static int requirePositive(String what, int value) {
            if (value < 1) {
                throw TensorException.argument("predictor", what + " must be 1 or more, got " + value,
                        "give a larger number");
            }
            return value;
        }

        /**
         * Captures the model for batches of several sizes up to the largest, and starts the predictor's thread.
         *
         * @throws TensorException if the model does not accept the example, or does not return one result for each
         */
        public Predictor build() {
            return new Predictor(new Builder(this));
        }
    }
}
