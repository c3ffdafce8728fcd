package dev.starling.tensor.cpu.onednn;

import dev.starling.errors.ThreadException;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;

/** Runs a task in a thread of its own, whose stack has 2 MiB whatever the JVM's flags and the caller's thread say. */
final class NewThread {
    private static final long STACK_BYTES = 2L << 20;

    private NewThread() { }

    /**
     * Returns the result of {@code task}. An interrupt of the calling thread is kept for later.
     *
     * @throws ThreadException if the thread cannot start
     */
    static <T> T run(String name, Callable<T> task) throws ExecutionException {
        FutureTask<T> future = new FutureTask<>(task);
        ThreadException.start(Thread.ofPlatform().daemon().name(name).stackSize(STACK_BYTES).unstarted(future));
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return future.get();
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
