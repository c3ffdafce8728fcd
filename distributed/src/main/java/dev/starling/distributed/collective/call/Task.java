package dev.starling.distributed.collective.call;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Work;
import dev.starling.errors.Durations;
import java.time.Duration;
import java.util.function.BooleanSupplier;
import org.jspecify.annotations.Nullable;

/** What an engine carries out, and what users start and wait for. */
public abstract sealed class Task implements Work permits CollectiveTask, Exchange, Transfer {
    /** The engine of a task. All methods except {@link #driver} are called under the driver's lock. */
    public interface Runner {
        /** Returns the threads that work for the engine. */
        Driver driver();

        /** Starts a task; throws the failure that has ended the engine's work, if there is one. */
        void start(Task task);

        /** Describes what a task waits for, for the message of a timeout. */
        String describeAwaited(Task task);

        /** Fails all pending and future tasks, on this rank and on the others. */
        void abort(RuntimeException why);
    }

    private final Runner runner;
    private final Driver driver;
    /** Allocated here, so that a start allocates nothing. */
    private final Runnable starting;
    private final BooleanSupplier done = this::isDone;
    private final Duration patience;
    private volatile boolean started;
    private volatile boolean inProgress;
    /** Why the task failed, or {@code null}. */
    private volatile @Nullable RuntimeException failure;

    Task(Runner runner) {
        this.runner = runner;
        driver = runner.driver();
        starting = () -> runner.start(this);
        patience = driver.patience().first();
    }

    // ---- for users ----

    @Override
    public final void start() {
        driver.locked(starting);
        driver.wake();
    }

    @Override
    public final void run(Duration atMost) {
        driver.locked(starting);
        await(atMost);
    }

    @Override
    public final boolean isDone() {
        return !inProgress;
    }

    @Override
    public final void await(Duration atMost) {
        if (!started) {
            throw new DistributedException(this + " has not been started; start it before you wait for it");
        }
        boolean patient = atMost.compareTo(patience) > 0;
        if (!driver.await(done, patient ? patience : atMost) && !(patient && awaitLonger(atMost))) {
            abortAfter(atMost);
        }
        RuntimeException why = failure;
        if (why != null) {
            throw why;
        }
    }

    /** Fails a task that is in progress, because the caller has waited for that long. */
    public final void abortAfter(Duration wait) {
        driver.locked(() -> {
            if (inProgress) {
                runner.abort(new DistributedException("waited " + Durations.text(wait) + " for " + this + "; "
                        + runner.describeAwaited(this)));
            }
        });
    }

    private boolean awaitLonger(Duration atMost) {
        return driver.patience().awaitLonger(time -> driver.await(done, time), patience, atMost, () -> {
            String[] awaited = new String[1];
            driver.locked(() -> awaited[0] = this + "; " + runner.describeAwaited(this));
            return awaited[0];
        });
    }

    // ---- for the engine ----

    public final void begin() {
        if (inProgress) {
            throw new DistributedException(this + " is in progress; wait for it before you start it again");
        }
        failure = null;
        inProgress = true;
        started = true;
    }

    public final void succeed() {
        inProgress = false;
    }

    public final void fail(RuntimeException why) {
        failure = why;
        inProgress = false;
    }
}
