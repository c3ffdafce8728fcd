package dev.starling.transport.simulated;

import java.lang.reflect.Constructor;
import java.lang.reflect.InaccessibleObjectException;
import java.util.Objects;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * Code that runs until it yields, and continues there when it is resumed. It has a thread of its own, and with it its
 * own thread-locals and scoped values, but that thread never runs concurrently with the resuming thread.
 *
 * <p>Where {@code java.base} opens {@code java.lang} to this module, the thread is a virtual one whose scheduler is the
 * resuming thread itself, and a switch takes 0.2 µs. Otherwise the JVM's scheduler of virtual threads is involved, and
 * a switch takes some 0.7 µs if the resuming thread is a virtual one too. Both run the same code in the same order.
 */
final class Coroutine {
    private static final @Nullable Constructor<?> WITH_SCHEDULER = builderWithScheduler();
    private static final long STUCK_NS = TimeUnit.SECONDS.toNanos(60);

    private final String name;
    private final Runnable body;
    /** {@code null} before the code begins. */
    private @Nullable Thread thread;
    private boolean carried;
    private volatile @Nullable Thread resumer;
    private volatile @Nullable Runnable step;
    private volatile boolean running;
    private volatile boolean ended;

    Coroutine(String name, Runnable body) {
        this.name = name;
        this.body = body;
    }

    /** Returns whether the calling thread can act as the scheduler of coroutines. */
    static boolean canCarry() {
        return WITH_SCHEDULER != null && !Thread.currentThread().isVirtual();
    }

    boolean hasBegun() {
        return thread != null;
    }

    /**
     * Runs the code until it yields or ends; always called by the same thread. Returns whether the code has not ended.
     */
    boolean resume() {
        resumer = Thread.currentThread();
        running = true;
        if (thread == null) {
            carried = canCarry();
            thread = (carried ? scheduledBy(this::schedule) : Thread.ofVirtual()).name("starling-simulated-" + name)
                    .start(this::runAll);
        } else if (!carried) {
            LockSupport.unpark(thread);
        }
        long begin = System.nanoTime();
        // An interrupt would end each wait at once.
        boolean interrupted = Thread.interrupted();
        try {
            while (running) {
                Runnable next = step;
                if (carried && next != null) {
                    step = null;
                    next.run();
                } else {
                    // The code waits for something outside of the simulation, such as a worker thread. Wait with it, to
                    // keep the order.
                    LockSupport.parkNanos(this, TimeUnit.SECONDS.toNanos(1));
                    interrupted |= Thread.interrupted();
                    if (System.nanoTime() - begin > STUCK_NS) {
                        throw new IllegalStateException(stuck());
                    }
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
        return !ended;
    }

    private void runAll() {
        try {
            body.run();
        } finally {
            ended = true;
            switchBack();
        }
    }

    /** Switches back to the resuming thread; called by the code itself. Returns when it is resumed. */
    void yield() {
        switchBack();
        if (carried) {
            Thread.yield();
            if (!running) {
                running = true;
                throw new IllegalStateException("a simulated process must not wait inside a static initialiser or"
                        + " a call from native code");
            }
        } else {
            boolean interrupted = false;
            while (!running) {
                LockSupport.park(this);
                interrupted |= Thread.interrupted();
            }
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private void switchBack() {
        running = false;
        if (!carried) {
            LockSupport.unpark(resumer);
        }
    }

    private void schedule(Runnable next) {
        step = next;
        LockSupport.unpark(resumer);
    }

    private String stuck() {
        StringBuilder text = new StringBuilder("the simulated process " + name + " has neither yielded nor ended for "
                + TimeUnit.NANOSECONDS.toSeconds(STUCK_NS) + " s of real time; it is at");
        for (StackTraceElement element : Objects.requireNonNull(thread).getStackTrace()) {
            text.append("\n    at ").append(element);
        }
        return text.toString();
    }

    private static @Nullable Constructor<?> builderWithScheduler() {
        try {
            Constructor<?> constructor = Class.forName("java.lang.ThreadBuilders$VirtualThreadBuilder")
                    .getDeclaredConstructor(Executor.class);
            constructor.setAccessible(true);
            return constructor;
        } catch (ReflectiveOperationException | InaccessibleObjectException e) {
            return null;
        }
    }

    private static Thread.Builder.OfVirtual scheduledBy(Executor scheduler) {
        try {
            return (Thread.Builder.OfVirtual) Objects.requireNonNull(WITH_SCHEDULER).newInstance(scheduler);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException(e);
        }
    }
}
