package dev.starling.distributed.launch;

import dev.starling.errors.ThreadException;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** A process, from its start to its end, with its descendants in its session. */
final class RankProcess {
    private static final int KEPT_OUTPUT = 10;
    private static final int KEPT_ERRORS = 20;
    /** A descendant may hold the output open after the process has ended. */
    private static final long DRAIN_MS = 1000;
    private static final String KILLED = "; the launcher did not send this signal: the kernel does if the memory of the"
            + " machine, or of its container, runs out (dmesg and oom_kill in the container's memory.events show it);"
            + " use fewer ranks, smaller batches or smaller heaps (-Xmx), or raise the container's limit";

    final int rank;
    final Process process;
    /** The target of {@code kill}: the negated group id, or the process id. */
    final long target;
    private final long startedNs = System.nanoTime();
    private final Deque<String> lastOutput = new ArrayDeque<>();
    private final Deque<String> lastErrors = new ArrayDeque<>();
    /** The consequence of its failure, if that does not end the launch; used by the supervisor. */
    @Nullable String consequence;
    /** Whether the supervisor has processed the end of the process, and that of its output; either may come first. */
    boolean hasEnded;
    boolean outputEnded;
    private volatile boolean killedHere;
    /** Set by {@link #pump}. */
    @SuppressWarnings("NullAway.Init")
    private CompletableFuture<Void> drained;
    private long endedNs;

    private RankProcess(int rank, Process process, boolean group) {
        this.rank = rank;
        this.process = process;
        target = group ? -process.pid() : process.pid();
    }

    /**
     * Starts a process.
     *
     * @param builder with command and environment
     * @param group whether the command runs in a session of its own
     */
    static RankProcess start(int rank, ProcessBuilder builder, boolean group) throws IOException {
        return new RankProcess(rank, builder.start(), group);
    }

    /** Begins to copy its output, also to {@code log} if that is not {@code null}. */
    void pump(Console out, Console err, OutputPump.Style outStyle, OutputPump.Style errStyle,
            @Nullable RankLog log, Runnable onConsoleClosed) {
        Thread first = thread("out", new OutputPump(process.getInputStream(), out, out.prefix(rank), outStyle,
                lastOutput, KEPT_OUTPUT, log, onConsoleClosed));
        Thread second = thread("err", new OutputPump(process.getErrorStream(), err, err.prefix(rank), errStyle,
                lastErrors, KEPT_ERRORS, log, onConsoleClosed));
        CompletableFuture<Void> both = new CompletableFuture<>();
        Thread.ofVirtual().start(() -> {
            try {
                first.join();
                second.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            } finally {
                both.complete(null);
            }
        });
        drained = process.onExit().thenCompose(gone -> both.completeOnTimeout(null, DRAIN_MS, TimeUnit.MILLISECONDS));
    }

    private Thread thread(String stream, OutputPump pump) {
        return ThreadException.start(Thread.ofPlatform().daemon().name("starling-launch-" + rank + "-" + stream)
                .unstarted(pump));
    }

    /** Sets callbacks for the end of the process, and for the later end of both the process and its output. */
    void onEnd(Runnable onExit, Runnable onDrained) {
        process.onExit().thenRun(() -> {
            endedNs = System.nanoTime();
            onExit.run();
        });
        drained.thenRun(onDrained);
    }

    /** Sends a signal to the process and its descendants; signal 0 checks whether any of them exists. */
    boolean signal(int number) {
        killedHere |= number == Signals.KILL && process.isAlive();
        boolean sent = (target < 0 || process.isAlive()) && Signals.send(target, number);
        // The process may not have entered its own session yet.
        return sent || process.isAlive() && Signals.send(process.pid(), number);
    }

    /** Returns its last lines of output, those of standard error at the end. */
    List<String> lastLines() {
        List<String> lines = new ArrayList<>();
        synchronized (lastOutput) {
            lines.addAll(lastOutput);
        }
        synchronized (lastErrors) {
            lines.addAll(lastErrors);
        }
        return lines;
    }

    /** Describes how the process ended, after it did. */
    String describeEnd() {
        return String.format(Locale.ROOT, "rank %d (process %d) %s after %.1f s", rank, process.pid(),
                Signals.describe(process.exitValue()), (endedNs - startedNs) / 1e9);
    }

    /** Describes how the process ended, with its last lines of output. */
    String account() {
        List<String> lines = lastLines();
        boolean killed = process.exitValue() == Signals.STATUS_BASE + Signals.KILL && !killedHere;
        return describeEnd() + (lines.isEmpty() ? " without any output" : "") + (killed ? KILLED : "")
                + (lines.isEmpty() ? "" : "; its last lines:\n    " + String.join("\n    ", lines));
    }

    /** Returns the failure of a process that has ended. */
    LaunchException failure() {
        return new LaunchException(rank, process.exitValue(), account(), lastLines(), null);
    }
}
