package dev.starling.nn.serve;

import dev.starling.nn.serve.PredictionException.Reason;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The requests that wait for a batch. Any number of threads add requests, one takes them. That one waits for no other:
 * virtual threads that try again at once when they are refused can keep one that has a lock from running.
 */
final class RequestQueue {
    private final Queue<Request> waiting = new ConcurrentLinkedQueue<>();
    /** The number of requests that wait or are about to be added. */
    private final AtomicInteger count = new AtomicInteger();
    private final int capacity;
    /** The thread that waits in {@link #take}, or {@code null}. */
    private volatile @Nullable Thread taker;
    private volatile boolean closed;

    RequestQueue(int capacity) {
        this.capacity = capacity;
    }

    /** Adds a request, without waiting. */
    void add(Request request) {
        if (closed) {
            throw closedException();
        }
        if (count.getAndUpdate(n -> n < capacity ? n + 1 : n) >= capacity) {
            throw new PredictionException(Reason.REFUSED, "maxQueue " + capacity
                    + " is reached: that many requests wait; retry later, or serve with more threads or processes");
        }
        waiting.add(request);
        // The taking thread may have ended before it could find the request.
        if (closed && waiting.remove(request)) {
            throw closedException();
        }
        LockSupport.unpark(taker);
    }

    /** Removes a request whose caller has given up, if it is still there, so that another one has its place. */
    void remove(Request request) {
        if (waiting.remove(request)) {
            count.decrementAndGet();
        }
    }

    static PredictionException closedException() {
        return new PredictionException(Reason.CLOSED, "the predictor is closed; keep it open while clients use it");
    }

    /**
     * Moves the next requests to {@code batch}: waits for the first, then at most {@code delayNanos} from its start
     * for others.
     *
     * @param batch empty
     * @return false if the queue is closed and empty
     */
    boolean take(List<Request> batch, int maxBatch, long delayNanos) {
        taker = Thread.currentThread();
        try {
            boolean last = closed;
            Request first = waiting.peek();
            while (first == null) {
                if (last) {
                    return false;
                }
                park(Long.MAX_VALUE);
                last = closed;
                first = waiting.peek();
            }
            awaitOthers(first, maxBatch, delayNanos);
            Request next = first;
            while (next != null && batch.size() < maxBatch) {
                next = waiting.poll();
                if (next != null) {
                    count.decrementAndGet();
                    if (next.isWaiting()) {
                        batch.add(next);
                    }
                }
            }
            return true;
        } finally {
            taker = null;
        }
    }

    private void awaitOthers(Request first, int maxBatch, long delayNanos) {
        long left = delayNanos - (System.nanoTime() - first.startNanos());
        while (left > 0 && count.get() < maxBatch && !closed && !park(left)) {
            left = delayNanos - (System.nanoTime() - first.startNanos());
        }
    }

    /** Returns whether the thread was interrupted, which only the model's own code can do, and clears that. */
    private boolean park(long atMostNanos) {
        LockSupport.parkNanos(this, atMostNanos);
        return Thread.interrupted();
    }

    /** Refuses requests from now on; {@link #take} still returns those that wait. */
    void close() {
        closed = true;
        LockSupport.unpark(taker);
    }
}
