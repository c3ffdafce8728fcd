package dev.starling.kafka;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.IntSupplier;

/**
 * Steps of one thread that use resources which another thread may close. The resources are closed once, in the reverse
 * order of {@link #keep}, and never during a step: {@link #close} waits for the current step, and if that takes too
 * long, the thread that runs the step closes the resources when the step returns.
 */
final class Work {
    private static final System.Logger LOG = System.getLogger("dev.starling.kafka");

    private final String name;
    private final Deque<Runnable> closers = new ArrayDeque<>();
    private final ReentrantLock lock = new ReentrantLock();
    private volatile boolean closed;
    private volatile boolean abandoned;
    /** Whether the last work was begun or given up; guarded by the lock. */
    private boolean ended;

    /** Creates work with a name for log messages. */
    Work(String name) {
        this.name = name;
    }

    /** Adds a resource to close, and returns it. */
    <T> T keep(T resource, Consumer<? super T> close) {
        closers.push(() -> close.accept(resource));
        return resource;
    }

    boolean isClosed() {
        return closed;
    }

    /** Runs a step and returns its result; returns 0 when closed. */
    int step(IntSupplier body) {
        lock.lock();
        try {
            return closed ? 0 : body.getAsInt();
        } finally {
            lock.unlock();
            // Either this thread sees that close() has given up, or close() finds the lock free.
            releaseIfAbandoned();
        }
    }

    /**
     * Ends the work.
     *
     * @param timeout how long to wait for the current step
     * @param last runs before the resources are closed, on one thread that closes; not if the step outlasts the timeout
     */
    void close(Duration timeout, Runnable last) {
        closed = true;
        if (lock.isHeldByCurrentThread() || !acquire(timeout)) {
            abandoned = true;
            releaseIfAbandoned();
            return;
        }
        try {
            if (!ended) {
                ended = true;
                uninterrupted(last);
            }
        } finally {
            release();
            lock.unlock();
        }
    }

    /** Runs work which an interrupt would end half-way: Kafka's clients and file channels give up then. */
    static void uninterrupted(Runnable body) {
        boolean interrupted = Thread.interrupted();
        try {
            body.run();
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private boolean acquire(Duration timeout) {
        try {
            if (lock.tryLock(timeout.toMillis(), TimeUnit.MILLISECONDS)) {
                return true;
            }
            LOG.log(Level.WARNING, "{0} still waits for the brokers; its resources are closed when that wait ends",
                    name);
            return false;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return lock.tryLock();
        }
    }

    private void releaseIfAbandoned() {
        if (abandoned && !lock.isHeldByCurrentThread() && lock.tryLock()) {
            try {
                // Work on closed resources would fail: a later call of close() must not begin it.
                ended = true;
                release();
            } finally {
                lock.unlock();
            }
        }
    }

    /** Closes all resources; one that fails to close does not keep the others open. */
    void release() {
        closed = true;
        uninterrupted(() -> {
            while (!closers.isEmpty()) {
                try {
                    closers.pop().run();
                } catch (RuntimeException e) {
                    LOG.log(Level.WARNING, name + " could not close all of its resources", e);
                }
            }
        });
    }
}
