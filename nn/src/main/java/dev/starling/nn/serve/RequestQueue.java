package dev.starling.nn.serve;

import dev.starling.nn.serve.PredictionException.Reason;
import java.util.ArrayDeque;
import java.util.List;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** The requests that wait for a batch. Any number of threads add requests, one takes them. */
final class RequestQueue {
    private final ReentrantLock lock = new ReentrantLock();
    private final Condition arrived = lock.newCondition();
    private final ArrayDeque<Request> waiting = new ArrayDeque<>();
    private final int capacity;
    /** The number of waiting requests, which changes with the lock held. */
    private volatile int count;
    private volatile boolean closed;

    RequestQueue(int capacity) {
        this.capacity = capacity;
    }

    /** Adds a request, without waiting. */
    void add(Request request) {
        if (!tryAdd(request)) {
            throw closed ? closedException() : new PredictionException(Reason.REFUSED, "maxQueue " + capacity
                    + " is reached: that many requests wait; retry later, or serve with more threads or processes");
        }
    }

    private boolean tryAdd(Request request) {
        // Callers that are refused and try again at once would keep the taking thread from the lock.
        if (closed || count >= capacity) {
            return false;
        }
        lock.lock();
        try {
            if (closed || count >= capacity) {
                return false;
            }
            waiting.add(request);
            count = waiting.size();
            arrived.signal();
            return true;
        } finally {
            lock.unlock();
        }
    }

    /** Removes a request whose caller has given up, if it is still there, so that another one has its place. */
    void remove(Request request) {
        lock.lock();
        try {
            waiting.remove(request);
            count = waiting.size();
        } finally {
            lock.unlock();
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
        lock.lock();
        try {
            while (waiting.isEmpty()) {
                if (closed) {
                    return false;
                }
                arrived.awaitUninterruptibly();
            }
            awaitOthers(maxBatch, delayNanos);
            while (!waiting.isEmpty() && batch.size() < maxBatch) {
                Request next = waiting.removeFirst();
                if (next.isWaiting()) {
                    batch.add(next);
                }
            }
            count = waiting.size();
            return true;
        } finally {
            lock.unlock();
        }
    }

    private void awaitOthers(int maxBatch, long delayNanos) {
        long left = delayNanos - (System.nanoTime() - waiting.getFirst().startNanos());
        try {
            while (left > 0 && waiting.size() < maxBatch && !closed) {
                left = arrived.awaitNanos(left);
            }
        } catch (InterruptedException e) {
            // Only the model's own code can interrupt this thread; the batch then starts early.
            return;
        }
    }

    /** Refuses requests from now on; {@link #take} still returns those that wait. */
    void close() {
        lock.lock();
        try {
            closed = true;
            arrived.signal();
        } finally {
            lock.unlock();
        }
    }
}
