package dev.starling.tensor.host;

import dev.starling.tensor.TensorException;
import java.util.Arrays;
import java.util.Objects;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * The thread pool of the CPU backend: splits an index range over the calling thread and some helpers.
 *
 * <p>Helpers are daemon threads, started when a call first needs them. After a job a helper polls for the next one for
 * {@value #SPIN_NANOS} ns, then parks: an idle process has no busy thread. Any number of threads may call at the same
 * time; each call uses the helpers that are free and runs the rest itself, so that calls never wait for one another. A
 * call from inside one of several parts runs inline; one from inside a range that runs as one part is divided. A call
 * allocates nothing after its thread's first one.
 */
public final class Parallel {
    private static final int MAX_THREADS = 1024;
    static final long SPIN_NANOS = 200_000;

    /** Parts per thread; with several, a thread that the system suspends delays the others only a little. */
    private static final int PARTS_PER_THREAD = 4;

    /** The most indices of a part, unless the grain is larger: tasks may count them with an {@code int}. */
    private static final long MAX_PART = 1 << 30;

    /** Marks a helper that runs a job or has stopped. */
    private static final Object BUSY = new Object();

    private static final ThreadLocal<Context> CONTEXT = ThreadLocal.withInitial(Context::new);
    private static final Object LOCK = new Object();
    private static volatile Worker[] workers = {};
    /** The number of helpers that the system permits. */
    private static volatile int mayStart = MAX_THREADS;
    private static volatile int defaultThreads = initialThreads();

    private Parallel() { }

    /** Returns the maximum number of threads that a call from this thread uses; 1 within one of several parts. */
    public static int threads() {
        Context context = CONTEXT.get();
        return context.inTask ? 1 : context.threads > 0 ? context.threads : defaultThreads;
    }

    /** Returns the number of threads of the process, also within a part. */
    public static int processThreads() {
        return defaultThreads;
    }

    /** Sets the number of threads of the process, which applies outside of {@link #withThreads}. */
    public static void setThreads(int threads) {
        defaultThreads = requirePositive(threads);
    }

    /** Runs {@code body} on this thread; the calls that it makes use {@code threads} threads. */
    public static <T> T withThreads(int threads, Supplier<T> body) {
        Context context = CONTEXT.get();
        int outer = context.threads;
        context.threads = requirePositive(threads);
        try {
            return body.get();
        } finally {
            context.threads = outer;
        }
    }

    /**
     * Returns, within a task, the index of the thread that runs it: 0 for the caller, less than the
     * {@link #threads()} of the call for all threads. Outside of tasks it is 0.
     */
    public static int workerIndex() {
        return CONTEXT.get().index;
    }

    /**
     * Runs {@code task} over all of {@code [0, n)} and returns when it is complete. Parts begin at multiples of
     * {@code grain}, the smallest number of indices that justifies a thread (some 20 µs of work). A range of at most
     * {@code grain} indices runs as one part on the calling thread; a longer part has at most 2^30 indices. The caller
     * sees what the task has written. An exception of a task is rethrown here, once no part runs any more; parts that
     * have not begun are then skipped.
     */
    public static void forRange(long n, long grain, RangeTask task) {
        if (n <= 0) {
            return;
        }
        if (n <= grain) {
            task.run(0, n);
            return;
        }
        Context context = CONTEXT.get();
        int threads = context.threads > 0 ? context.threads : defaultThreads;
        if (threads == 1 || context.inTask) {
            long step = step(MAX_PART, Math.max(1, grain));
            for (long from = 0; from < n; from += step) {
                task.run(from, Math.min(n, from + step));
            }
            return;
        }
        context.inTask = true;
        try {
            context.job().run(n, Math.max(1, grain), threads, task);
        } finally {
            context.inTask = false;
        }
    }

    /** Returns the largest multiple of {@code grain} up to {@code most}, and at least {@code grain}. */
    private static long step(long most, long grain) {
        return Math.max(1, most / grain) * grain;
    }

    /** Stops the helpers and waits until they have ended. A later call starts new ones. */
    public static void shutdown() {
        Worker[] stopped;
        synchronized (LOCK) {
            stopped = workers;
            workers = new Worker[0];
            mayStart = MAX_THREADS;
        }
        for (Worker worker : stopped) {
            worker.stop = true;
            LockSupport.unpark(worker);
        }
        boolean interrupted = false;
        for (Worker worker : stopped) {
            while (worker.isAlive() && worker != Thread.currentThread()) {
                try {
                    worker.join();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static int initialThreads() {
        int processors = Runtime.getRuntime().availableProcessors();
        return Math.clamp(Integer.getInteger("starling.threads", processors), 1, MAX_THREADS);
    }

    private static int requirePositive(int threads) {
        if (threads < 1 || threads > MAX_THREADS) {
            throw TensorException.argument("threads", "the number must be 1 to " + MAX_THREADS + ", got " + threads,
                    "use the number of processors");
        }
        return threads;
    }

    private static Worker[] workers(int count) {
        Worker[] present = workers;
        return present.length >= Math.min(count, mayStart) ? present : startWorkers(count);
    }

    private static Worker[] startWorkers(int count) {
        synchronized (LOCK) {
            Worker[] present = workers;
            if (present.length >= count) {
                return present;
            }
            Worker[] grown = Arrays.copyOf(present, count);
            int started = present.length;
            try {
                while (started < count) {
                    grown[started] = new Worker(started + 1);
                    grown[started].start();
                    started++;
                }
            } catch (OutOfMemoryError e) {
                // The system permits no more threads; the caller runs the parts of those that are missing.
                mayStart = started;
            }
            workers = started == count ? grown : Arrays.copyOf(grown, started);
            return workers;
        }
    }

    /** The pool's state of one thread. */
    private static final class Context {
        private int threads;
        private int index;
        private boolean inTask;
        private @Nullable Job job;

        private Job job() {
            if (job == null) {
                job = new Job(Thread.currentThread());
            }
            return job;
        }
    }

    /** The single call in progress of a calling thread, reused by its next call. */
    private static final class Job {
        private final Thread caller;
        private final AtomicLong next = new AtomicLong();
        /** Helpers to which this job was dispatched and which have neither finished nor been withdrawn. */
        private final AtomicInteger open = new AtomicInteger();
        private final AtomicInteger joined = new AtomicInteger();
        private final AtomicReference<Throwable> failure = new AtomicReference<>();
        private volatile boolean callerParked;
        private @Nullable RangeTask task;
        private long end;
        private long step;

        private Job(Thread caller) {
            this.caller = caller;
        }

        private void run(long n, long grain, int threads, RangeTask body) {
            task = body;
            end = n;
            long grains = (n + grain - 1) / grain;
            step = step(Math.min(MAX_PART, grains / ((long) threads * PARTS_PER_THREAD) * grain), grain);
            next.setPlain(0);
            joined.setPlain(0);
            int helpers = (int) Math.min(threads - 1, (n + step - 1) / step - 1);
            Worker[] pool = workers(helpers);
            dispatch(pool, helpers);
            drain();
            withdraw(pool);
            await();
            task = null;
            Throwable thrown = failure.get();
            if (thrown != null) {
                failure.set(null);
                Job.<RuntimeException>rethrow(thrown);
            }
        }

        private void dispatch(Worker[] pool, int helpers) {
            int wanted = helpers;
            for (int i = 0; i < pool.length && wanted > 0; i++) {
                Worker worker = pool[i];
                if (worker.slot.get() == null) {
                    open.incrementAndGet();
                    if (worker.slot.compareAndSet(null, this)) {
                        wanted--;
                        if (worker.parked) {
                            LockSupport.unpark(worker);
                        }
                    } else {
                        open.decrementAndGet();
                    }
                }
            }
        }

        /**
         * Withdraws the job from helpers that have not started it, so that the caller waits only for those that have.
         */
        private void withdraw(Worker[] pool) {
            for (int i = 0; i < pool.length && open.get() > 0; i++) {
                if (pool[i].slot.compareAndSet(this, null)) {
                    open.decrementAndGet();
                }
            }
        }

        private void drain() {
            try {
                RangeTask body = Objects.requireNonNull(task);
                for (long from = next.getAndAdd(step); from < end; from = next.getAndAdd(step)) {
                    body.run(from, Math.min(end, from + step));
                }
            } catch (Throwable thrown) {
                next.set(end);
                failure.compareAndSet(null, thrown);
            }
        }

        private void await() {
            long deadline = 0;
            for (int spins = 1; open.get() > 0; spins++) {
                Thread.onSpinWait();
                if (spins % 32 == 0) {
                    long now = System.nanoTime();
                    if (deadline == 0) {
                        deadline = now + SPIN_NANOS;
                    } else if (now - deadline > 0) {
                        park();
                        return;
                    }
                }
            }
        }

        private void park() {
            boolean interrupted = false;
            callerParked = true;
            while (open.get() > 0) {
                LockSupport.park(this);
                interrupted |= Thread.interrupted();
            }
            callerParked = false;
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }

        /** Ends a helper's part. The caller may reuse the job as soon as {@code open} is 0. */
        private void finish() {
            if (open.decrementAndGet() == 0 && callerParked) {
                LockSupport.unpark(caller);
            }
        }

        @SuppressWarnings("unchecked")
        private static <X extends Throwable> void rethrow(Throwable thrown) throws X {
            throw (X) thrown;
        }
    }

    /** A helper thread. Its slot holds null while it is free, the job that was dispatched to it, or {@link #BUSY}. */
    private static final class Worker extends Thread {
        private final AtomicReference<Object> slot = new AtomicReference<>();
        private volatile boolean parked;
        private volatile boolean stop;

        private Worker(int number) {
            super(null, null, "starling-cpu-" + number, 0, false);
            setDaemon(true);
            setContextClassLoader(null);
        }

        @Override
        public void run() {
            Context context = CONTEXT.get();
            context.inTask = true;
            while (true) {
                Object job = slot.get();
                if (job != null) {
                    if (slot.compareAndSet(job, BUSY)) {
                        work((Job) job, context);
                    }
                } else if (stop) {
                    if (slot.compareAndSet(null, BUSY)) {
                        return;
                    }
                } else {
                    idle();
                }
            }
        }

        private void work(Job job, Context context) {
            context.index = job.joined.incrementAndGet();
            job.drain();
            slot.set(null);
            job.finish();
        }

        private void idle() {
            long deadline = System.nanoTime() + SPIN_NANOS;
            for (int spins = 1; slot.get() == null && !stop; spins++) {
                Thread.onSpinWait();
                if (spins % 32 == 0 && System.nanoTime() - deadline > 0) {
                    parked = true;
                    while (slot.get() == null && !stop) {
                        LockSupport.park(this);
                        Thread.interrupted();
                    }
                    parked = false;
                }
            }
        }
    }
}
