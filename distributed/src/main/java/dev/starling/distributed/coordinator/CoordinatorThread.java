package dev.starling.distributed.coordinator;

import dev.starling.distributed.DistributedException;
import dev.starling.errors.Durations;
import dev.starling.errors.ThreadException;
import dev.starling.transport.spi.Backoff;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.agrona.concurrent.IdleStrategy;
import org.jspecify.annotations.Nullable;

/** Drives a {@link Coordinator} in a thread of its own until it is closed. */
public final class CoordinatorThread implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger("dev.starling.distributed");
    private static final long SLEEP_NS = 1_000_000;
    private static final Backoff BACKOFF = new Backoff(0, 0, SLEEP_NS, 5 * SLEEP_NS);
    private static final Duration CLOSE_TIMEOUT = Duration.ofSeconds(10);

    private final Coordinator coordinator;
    private final Thread thread;
    private final Queue<Runnable> requests = new ConcurrentLinkedQueue<>();
    private volatile boolean done;
    private volatile boolean endsWhenEmpty;
    private volatile boolean closed;
    private volatile @Nullable Throwable failure;

    private CoordinatorThread(Coordinator coordinator) {
        this.coordinator = coordinator;
        thread = Thread.ofPlatform().daemon().name(coordinator.roleName()).unstarted(this::run);
    }

    /**
     * Starts the thread, which then owns the coordinator.
     *
     * @throws ThreadException if the system refuses the thread; the coordinator is closed then
     */
    public static CoordinatorThread start(Coordinator coordinator) {
        CoordinatorThread started = new CoordinatorThread(coordinator);
        try {
            ThreadException.start(started.thread);
        } catch (ThreadException e) {
            coordinator.close();
            throw e;
        }
        return started;
    }

    private void run() {
        try (coordinator) {
            IdleStrategy idle = BACKOFF.strategy();
            while (!closed) {
                for (Runnable request = requests.poll(); request != null; request = requests.poll()) {
                    request.run();
                }
                int work = coordinator.doWork();
                done = coordinator.isDone();
                if (done && endsWhenEmpty) {
                    endsWhenEmpty = false;
                    coordinator.end("the run has finished");
                }
                idle.idle(work);
            }
        } catch (RuntimeException | Error e) {
            failure = e;
            LOG.log(Level.ERROR, "the coordinator has failed", e);
        } finally {
            done = true;
        }
    }

    /** Returns the error that has ended the coordinator, or {@code null}. */
    public @Nullable Throwable failure() {
        return failure;
    }

    /** Returns the address at which members reach the coordinator. */
    public String address() {
        return coordinator.address();
    }

    /**
     * Waits until all members have left or are lost, the group has ended, or the coordinator has failed; returns false
     * if the time has passed first.
     */
    public boolean awaitDone(Duration atMost) {
        long begin = System.nanoTime();
        // Also for a duration of more nanoseconds than a long can hold.
        long limitNs = TimeUnit.NANOSECONDS.convert(atMost);
        while (!done && System.nanoTime() - begin < limitNs) {
            Backoff.park(SLEEP_NS);
        }
        return done;
    }

    /**
     * Excludes a process immediately, if the caller knows of its end before the network reports it. Of the processes
     * that joined with this preferred rank, the one that joined first is excluded; members are notified as of any loss.
     * If none has joined, a group that re-forms no longer waits for it before its first epoch.
     *
     * @param reason describes the end of the process, for the members' exceptions
     */
    public void exclude(int preferredRank, String reason) {
        exclude(preferredRank, reason, System.nanoTime());
    }

    /**
     * As {@link #exclude(int, String)}, for an end of which the caller learns late.
     *
     * @param endedNs the {@link System#nanoTime} of the end: a process that joined after it has replaced the ended one
     *     and is not excluded
     */
    public void exclude(int preferredRank, String reason, long endedNs) {
        requests.add(() -> coordinator.exclude(preferredRank, reason, System.nanoTime() - endedNs));
        LockSupport.unpark(thread);
    }

    /**
     * As {@link #exclude(int, String)}, for a process that is started again: before the first epoch, the group waits
     * for it.
     */
    public void replace(int preferredRank, String reason) {
        requests.add(() -> {
            if (coordinator.view().epoch() > 0) {
                coordinator.exclude(preferredRank, reason, 0);
            }
        });
        LockSupport.unpark(thread);
    }

    /**
     * Ends the group as soon as it has no member left. For callers that know that the run has finished: a process that
     * joins later is refused, and does not form a group of its own.
     */
    public void endWhenEmpty() {
        endsWhenEmpty = true;
        LockSupport.unpark(thread);
    }

    /** Returns the preferred rank of the member whose loss has ended the group, or -1. */
    public int lostRank() {
        return coordinator.dismissed.lostRank();
    }

    /** Returns whether a process with a preferred rank was refused because the group had ended. */
    public boolean hasRefused(int preferredRank) {
        return coordinator.dismissed.wasLate(preferredRank);
    }

    /** Ends the thread, and with it the coordinator. */
    @Override
    public void close() {
        closed = true;
        LockSupport.unpark(thread);
        try {
            if (!thread.join(CLOSE_TIMEOUT)) {
                throw new DistributedException("thread " + thread.getName() + " did not end within "
                        + Durations.text(CLOSE_TIMEOUT));
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
