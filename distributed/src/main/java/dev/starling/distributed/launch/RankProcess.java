package dev.starling.distributed.launch;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** One process from its start to its end, with all that it starts in its session. */
final class RankProcess {
    private static final int KEPT_OUTPUT = 10;
    private static final int KEPT_ERRORS = 20;
    /** Something else may hold the output open after the process is gone. */
    private static final long DRAIN_MS = 1000;

    final int rank;
    final Process process;
    /** What {@code kill} is told: the group, negated, or just the process. */
    final long target;
    private final long startedNs = System.nanoTime();
    private final Deque<String> lastOutput = new ArrayDeque<>();
    private final Deque<String> lastErrors = new ArrayDeque<>();
    /** What follows from its failure, if that is not the end of all; the supervisor's. */
    String consequence;
    /** Whether the supervisor has heard of its end, and whether of the end of its output; either may come first. */
    boolean hasEnded;
    boolean isThrough;
    private CompletableFuture<Void> drained;
    private long endedNs;

    private RankProcess(int rank, Process process, boolean group) {
        this.rank = rank;
        this.process = process;
        target = group ? -process.pid() : process.pid();
    }

    /**
     * Starts it.
     *
     * @param builder with command and environment
     * @param group whether the command makes a session of its own
     */
    static RankProcess start(int rank, ProcessBuilder builder, boolean group) throws IOException {
        return new RankProcess(rank, builder.start(), group);
    }

    /** Begins to carry its output. */
    void pump(Console out, Console err, OutputPump.Style outStyle, OutputPump.Style errStyle, Runnable unread) {
        Thread first = thread("out", new OutputPump(process.getInputStream(), out, out.prefix(rank), outStyle,
                lastOutput, KEPT_OUTPUT, unread));
        Thread second = thread("err", new OutputPump(process.getErrorStream(), err, err.prefix(rank), errStyle,
                lastErrors, KEPT_ERRORS, unread));
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
        return Thread.ofPlatform().daemon().name("starling-launch-" + rank + "-" + stream).start(pump);
    }

    /** Tells when the process has ended, then when its output is through as well. */
    void onEnd(Runnable ended, Runnable through) {
        process.onExit().thenRun(() -> {
            endedNs = System.nanoTime();
            ended.run();
        });
        drained.thenRun(through);
    }

    /** Signals the process and what it started; 0 asks whether there is any of it. */
    boolean signal(int number) {
        boolean sent = (target < 0 || process.isAlive()) && Signals.send(target, number);
        // It may not have come to its own session yet.
        return sent || process.isAlive() && Signals.send(process.pid(), number);
    }

    /** Returns what it wrote last, errors at the end. */
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

    /** Tells how it ended, in words, after it did. */
    String describeEnd() {
        return String.format("rank %d (process %d) %s after %.1f s", rank, process.pid(),
                Signals.describe(process.exitValue()), (endedNs - startedNs) / 1e9);
    }
}
