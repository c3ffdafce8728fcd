package dev.starling.nn.serve;

import dev.starling.errors.Durations;
import dev.starling.nn.serve.PredictionException.Reason;
import java.lang.foreign.MemorySegment;
import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * One example on its way through a {@link Predictor}. The calling thread waits in {@link #await}; the predictor's
 * thread reads the inputs and writes the outputs. A caller that gives up does so while its memory is not being read or
 * written, so it may reuse or free that memory as soon as {@link #await} has returned or thrown.
 */
final class Request {
    /** How long a caller that has to give up waits for a copy of its example to end before it looks again. */
    private static final long COPY_NANOS = 10_000;

    private enum State {
        /** In the queue. */
        WAITING,
        /** Its inputs are being copied into a batch. */
        READING,
        /** In the batch that is being computed. */
        RUNNING,
        /** Its outputs are being copied. */
        WRITING,
        ANSWERED,
        FAILED,
        /** The caller has given up. */
        ABANDONED
    }

    private final MemorySegment[] inputs;
    private final MemorySegment[] outputs;
    private final Duration timeout;
    private final long timeoutNanos;
    private final long start = System.nanoTime();
    private final Thread caller = Thread.currentThread();
    private final AtomicReference<State> state = new AtomicReference<>(State.WAITING);
    private @Nullable Throwable failure;

    /**
     * Makes a request of the current thread.
     *
     * @param inputs the elements of one example, for each input of the model
     * @param outputs receive the elements of the result, for each output of the model
     */
    Request(MemorySegment[] inputs, MemorySegment[] outputs, Duration timeout) {
        this.inputs = inputs;
        this.outputs = outputs;
        this.timeout = timeout;
        timeoutNanos = TimeUnit.NANOSECONDS.convert(timeout);
    }

    long startNanos() {
        return start;
    }

    // ---- the calling thread ----

    /**
     * Waits for the outputs.
     *
     * @throws PredictionException if the model or a copy failed, at the deadline, or if the thread is interrupted
     */
    void await() {
        boolean interrupted = false;
        try {
            while (true) {
                State now = Objects.requireNonNull(state.get());
                switch (now) {
                    case ANSWERED -> {
                        return;
                    }
                    case FAILED -> throw failed();
                    case READING, WRITING -> LockSupport.parkNanos(this, COPY_NANOS);
                    case WAITING, RUNNING -> {
                        long left = timeoutNanos - (System.nanoTime() - start);
                        interrupted |= Thread.interrupted();
                        if (left > 0 && !interrupted) {
                            LockSupport.parkNanos(this, left);
                        } else if (state.compareAndSet(now, State.ABANDONED)) {
                            throw abandoned(interrupted, now);
                        }
                    }
                    case ABANDONED -> throw new IllegalStateException("a request has one caller");
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private PredictionException failed() {
        return new PredictionException(Reason.FAILED, "the prediction failed: " + failure, failure);
    }

    private PredictionException abandoned(boolean interrupted, State last) {
        return interrupted
                ? new PredictionException(Reason.INTERRUPTED, "interrupted while waiting for a prediction")
                : new PredictionException(Reason.TIMEOUT, "no result within "
                        + Durations.text(timeout) + "; the request was "
                        + (last == State.WAITING ? "still in the queue: serve with more threads or processes"
                        : "being computed: the model is slower than the timeout") + ", or set a longer timeout");
    }

    // ---- the predictor's thread ----

    /** Returns whether the caller is waiting for an example that no batch has. */
    boolean isWaiting() {
        return state.get() == State.WAITING && System.nanoTime() - start < timeoutNanos;
    }

    /** Copies the example into a row of each input of a batch; returns false if there is none to compute. */
    boolean read(MemorySegment[] rows) {
        if (!isWaiting() || !state.compareAndSet(State.WAITING, State.READING)) {
            return false;
        }
        return copy(inputs, rows, State.RUNNING);
    }

    /** Copies a row of each output to the caller; returns false if the caller has given up or the copy failed. */
    boolean answer(MemorySegment[] rows) {
        if (!state.compareAndSet(State.RUNNING, State.WRITING)) {
            return false;
        }
        boolean copied = copy(rows, outputs, State.ANSWERED);
        LockSupport.unpark(caller);
        return copied;
    }

    /** Ends the request with an exception; returns false if it has ended already. */
    boolean fail(Throwable cause) {
        failure = cause;
        if (!state.compareAndSet(State.RUNNING, State.FAILED) && !state.compareAndSet(State.WAITING, State.FAILED)) {
            return false;
        }
        LockSupport.unpark(caller);
        return true;
    }

    /** Copies an example, then enters a state; a failure ends the request and returns false. */
    private boolean copy(MemorySegment[] from, MemorySegment[] to, State next) {
        try {
            for (int i = 0; i < from.length; i++) {
                MemorySegment.copy(from[i], 0, to[i], 0, to[i].byteSize());
            }
        } catch (RuntimeException | Error e) {
            failure = e;
            state.set(State.FAILED);
            LockSupport.unpark(caller);
            return false;
        }
        state.set(next);
        return true;
    }
}
