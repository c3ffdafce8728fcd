package dev.starling.distributed.launch;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.errors.ThreadException;
import dev.starling.transport.Secret;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * The processes that a {@link Launcher} started, until the last of them has ended. Safe for use by several threads.
 */
public final class Launch implements AutoCloseable {
    private static final long NEVER = Long.MAX_VALUE;
    private static final Duration MAX_BACKOFF = Duration.ofSeconds(30);
    /** Time limit for the kernel to remove a killed process. */
    private static final long KILLED_NS = TimeUnit.SECONDS.toNanos(5);
    /** How long a process that has left or broken its group may take to end by itself, which shows the reason. */
    private static final long CULPRIT_NS = TimeUnit.SECONDS.toNanos(1);
    /** Interval at which to check for the end of descendants: there is no notification of it. */
    private static final long REMNANTS_NS = TimeUnit.MILLISECONDS.toNanos(10);

    private final Launcher launcher;
    /** What the supervisor has yet to handle. */
    private final BlockingQueue<Runnable> events = new LinkedBlockingQueue<>();
    private final CompletableFuture<Integer> outcome = new CompletableFuture<>();
    private final LaunchDirectory directory;
    private final Path secretFile;
    private final Guardian guardian;
    /** {@code null} if no coordinator runs in this process. */
    private final @Nullable CoordinatorThread coordinator;
    private final Console out;
    private final Console err;
    private final List<String> session;
    private final Thread hook = new Thread(this::close, "starling-launch-hook");
    private final RankProcess[] current;
    private final int[] starts;
    /** By rank; {@code null} if output is not written to files. */
    private final @Nullable RankLog[] logs;
    private final long[] startAtNs;
    /** Processes that have ended but whose descendants have not. */
    private final List<RankProcess> remnants = new ArrayList<>();
    /** Numbers of processes that run, and of those whose output has not ended. */
    private int running;
    private int draining;
    private int restartsLeft;
    private int toleratedLeft;
    /** The first process that failed, or {@code null}. */
    private @Nullable RankProcess failed;
    private boolean succeeded;
    /** What the launch reports, or {@code null}. */
    private @Nullable LaunchException failure;
    /** The process because of which that one failed, while it has yet to end; {@code null} if there is none. */
    private @Nullable RankProcess culprit;
    private long stopCulpritAtNs = NEVER;
    private int signalled;
    private boolean ending;
    /** When to terminate servers that do not end by themselves after their workers. */
    private long retireAtNs = NEVER;
    private long killAtNs = NEVER;
    private long abandonAtNs = NEVER;

    private Launch(Launcher launcher) throws IOException {
        this.launcher = launcher;
        session = Launcher.session();
        out = new Console(launcher.standardOutput, Console.isTerminal(1), launcher.processes);
        err = new Console(launcher.standardError, Console.isTerminal(2), launcher.processes);
        current = new RankProcess[launcher.processes];
        starts = new int[launcher.processes];
        startAtNs = new long[launcher.processes];
        logs = new RankLog[launcher.processes];
        restartsLeft = launcher.restarts;
        toleratedLeft = launcher.tolerated;
        directory = LaunchDirectory.make(launcher.environment.getOrDefault(LaunchedProcess.DIRECTORY,
                System.getenv(LaunchedProcess.DIRECTORY)), launcher.processes);
        try {
            guardian = Guardian.start(session, directory.path(), launcher.grace);
        } catch (IOException | RuntimeException | Error e) {
            directory.close();
            throw e;
        }
        try {
            Secret secret = launcher.secret == null ? Secret.random() : launcher.secret;
            secretFile = directory.write(secret);
            openLogs();
            coordinator = launcher.coordinatorFactory == null ? null
                    : launcher.coordinatorFactory.open(secret, directory.path(), launcher.processes);
        } catch (IOException | RuntimeException | Error e) {
            closeLogs();
            directory.close();
            guardian.close();
            throw e;
        }
    }

    static Launch start(Launcher launcher) {
        Launcher.requireCommand(launcher.command.getFirst());
        Launch launch;
        try {
            launch = new Launch(launcher);
        } catch (IOException e) {
            throw LaunchException.notStarted(-1, "the launch", e);
        }
        try {
            ThreadException.start(Thread.ofPlatform().name("starling-launch").unstarted(launch::supervise));
        } catch (ThreadException e) {
            launch.finish(() -> { }, e);
            throw e;
        }
        return launch;
    }

    /** Returns the process id of a rank, the latest if it was restarted; 0 before it is started. */
    public long pid(int rank) {
        RankProcess process;
        synchronized (current) {
            process = current[rank];
        }
        return process == null ? 0 : process.process.pid();
    }

    /** Returns the directory in which the processes may keep files; it is deleted with the launch. */
    public Path directory() {
        return directory.path();
    }

    /**
     * Waits until all processes have ended.
     *
     * @return 0, or 128 + the number of the signal that terminated this process
     * @throws LaunchException if one of them failed; the others have ended as well
     */
    public int await() {
        try {
            return outcome.join();
        } catch (CompletionException e) {
            throw rethrown(e.getCause());
        }
    }

    /**
     * Waits until all processes have ended, up to a time limit.
     *
     * @throws TimeoutException if they still run
     */
    public int await(Duration timeout) throws TimeoutException, InterruptedException {
        try {
            // Also for a duration of more nanoseconds than a long can hold.
            return outcome.get(TimeUnit.NANOSECONDS.convert(timeout), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw rethrown(e.getCause());
        }
    }

    private static RuntimeException rethrown(@Nullable Throwable cause) {
        return cause instanceof LaunchException e
                ? new LaunchException(e.rank(), e.status(), String.valueOf(e.getMessage()), e.lastLines(), e)
                : new DistributedException("the launch's supervisor failed", cause);
    }

    /** Terminates processes that still run, as SIGTERM would, and waits until they are gone. */
    @Override
    public void close() {
        events.add(() -> end(Signals.TERM));
        try {
            outcome.get(launcher.grace.toNanos() + 2 * KILLED_NS, TimeUnit.NANOSECONDS);
        } catch (ExecutionException | TimeoutException reported) {
            // await() reports failures.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void supervise() {
        Throwable broken = null;
        AutoCloseable signalHandling = () -> { };
        try {
            if (launcher.signals) {
                signalHandling = Signals.handle(signal -> events.add(() -> onSignal(signal)));
            }
            Runtime.getRuntime().addShutdownHook(hook);
            for (int rank = 0; rank < launcher.processes; rank++) {
                startAtNs[rank] = System.nanoTime();
            }
            for (act(); !isOver(); act()) {
                Runnable event = events.poll(nextNs() - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (event != null) {
                    event.run();
                }
            }
        } catch (Throwable e) {
            broken = e;
        }
        finish(signalHandling, broken);
    }

    private boolean isOver() {
        return ending && running == 0 && draining == 0 && remnants.isEmpty() || System.nanoTime() > abandonAtNs;
    }

    private long nextNs() {
        long next = Math.min(Math.min(retireAtNs, stopCulpritAtNs), Math.min(killAtNs, abandonAtNs));
        for (long at : startAtNs) {
            next = Math.min(next, at);
        }
        long latest = System.nanoTime() + (ending && running == 0 ? REMNANTS_NS : TimeUnit.HOURS.toNanos(1));
        return Math.min(next, latest);
    }

    /** Starts ranks and sends signals that are due. */
    private void act() {
        for (int rank = 0; rank < launcher.processes && !ending; rank++) {
            if (startAtNs[rank] != NEVER && System.nanoTime() >= startAtNs[rank]) {
                startAtNs[rank] = NEVER;
                startRank(rank);
            }
        }
        remnants.removeIf(this::isGone);
        if (System.nanoTime() >= retireAtNs) {
            end(Signals.TERM);
        }
        if (System.nanoTime() >= Math.min(stopCulpritAtNs, killAtNs)) {
            RankProcess stopped = culprit;
            stopCulpritAtNs = NEVER;
            culprit = null;
            if (stopped != null && stopped.process.isAlive()) {
                stopped.signal(Signals.TERM);
            }
        }
        if (System.nanoTime() >= killAtNs) {
            killAtNs = NEVER;
            signalAll(Signals.KILL);
            abandonAtNs = System.nanoTime() + KILLED_NS;
        }
    }

    private boolean isGone(RankProcess process) {
        boolean gone = !process.signal(0);
        if (gone) {
            guardian.remove(process.target);
        }
        return gone;
    }

    private void startRank(int rank) {
        remnants.stream().filter(p -> p.rank == rank).forEach(p -> p.signal(Signals.KILL));
        ProcessBuilder builder = new ProcessBuilder(new ArrayList<>(session));
        builder.command().addAll(launcher.command);
        builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
        variables(rank, builder.environment());
        RankProcess process;
        try {
            process = RankProcess.start(rank, builder, !session.isEmpty());
        } catch (IOException e) {
            failure = LaunchException.notStarted(rank, "rank " + rank, e);
            end(Signals.TERM);
            return;
        }
        guardian.add(process.target);
        starts[rank]++;
        running++;
        draining++;
        synchronized (current) {
            current[rank] = process;
        }
        boolean first = launcher.output == Launcher.Output.FIRST_RANK;
        if (logs[rank] != null) {
            logs[rank].begin(rank, starts[rank], process.process.pid());
        }
        process.pump(out, err, first ? OutputPump.Style.PLAIN : OutputPump.Style.PREFIXED, !first
                ? OutputPump.Style.PREFIXED : rank == 0 ? OutputPump.Style.PLAIN : OutputPump.Style.KEPT,
                logs[rank], () -> events.add(this::onConsoleClosed));
        process.onEnd(() -> events.add(() -> onEnded(process)), () -> events.add(() -> onOutputEnded(process)));
    }

    private void variables(int rank, Map<String, String> variables) {
        launcher.removeOwn(variables.keySet());
        variables.put(LaunchedProcess.RANK, Integer.toString(rank));
        variables.put(LaunchedProcess.WORLD, Integer.toString(launcher.processes));
        variables.put(LaunchedProcess.LOCAL_WORLD, Integer.toString(launcher.processes));
        variables.put(LaunchedProcess.LOCAL_RANK, Integer.toString(rank));
        variables.put(LaunchedProcess.SERVERS, Integer.toString(launcher.servers));
        variables.put(LaunchedProcess.SECRET_FILE, secretFile.toString());
        variables.put(LaunchedProcess.RESTART, Integer.toString(starts[rank]));
        variables.put(LaunchedProcess.COORDINATOR_RANK, LaunchedProcess.NONE);
        String address = coordinator != null ? coordinator.address() : launcher.coordinator;
        if (address != null) {
            variables.put(LaunchedProcess.COORDINATOR, address);
        }
        variables.putAll(launcher.environment);
        variables.put(LaunchedProcess.DIRECTORY, directory.path().toString());
    }

    private void onOutputEnded(RankProcess process) {
        draining--;
        process.outputEnded = true;
        report(process);
    }

    private void onConsoleClosed() {
        if (!ending) {
            signalled = Signals.PIPE;
            end(Signals.TERM);
        }
    }

    private void onSignal(int signal) {
        if (ending && signalled != 0) {
            killAtNs = System.nanoTime();
        } else {
            signalled = signal;
            end(signal);
        }
    }

    /** Reports a failure that does not end the launch, once its last lines and its consequence are known. */
    private void report(RankProcess process) {
        if (process.outputEnded && process.consequence != null) {
            err.printLine(process.account() + "\n    " + process.consequence);
        }
    }

    private void onEnded(RankProcess process) {
        running--;
        process.hasEnded = true;
        // Descendants have no reason to continue.
        if (process.signal(Signals.TERM)) {
            remnants.add(process);
        } else {
            guardian.remove(process.target);
        }
        boolean bad = process.process.exitValue() != 0;
        boolean worker = process.rank < launcher.processes - launcher.servers;
        if (ending) {
            failed = bad && process == culprit ? process : failed;
            return;
        }
        if (retireAtNs != NEVER) {
            // A server that ends by itself now may not have saved what it holds.
            failed = bad && failed == null ? process : failed;
            retireIfAlone();
            return;
        }
        if (bad && worker && isLeftBehind(process)) {
            process.consequence = "it is not restarted: the run has finished without it";
            report(process);
        } else if (bad && restartsLeft > 0 && (!worker || !succeeded || coordinator == null
                || isWorkerRunning(Integer.MAX_VALUE))) {
            restart(process);
        } else if (bad) {
            failed = failed == null || !worker ? process : failed;
            if (toleratedLeft == 0 || !worker) {
                findCulprit();
                end(Signals.TERM);
                return;
            }
            toleratedLeft--;
            process.consequence = "the others continue without it";
            report(process);
            if (coordinator != null) {
                coordinator.exclude(process.rank, process.describeEnd());
            }
        } else {
            succeeded |= worker;
            // One that was not restarted may have been stopped, and rejoins.
            if (worker && coordinator != null && !isWorkerRunning(1)) {
                coordinator.endWhenEmpty();
            }
        }
        if (workersAreDone()) {
            failed = succeeded ? null : failed;
            cancelRestarts();
            retireAtNs = System.nanoTime() + launcher.grace.toNanos();
            retireIfAlone();
        }
    }

    /** Ends the launch if no server has work to complete any more. */
    private void retireIfAlone() {
        if (running == 0 || failed != null) {
            end(Signals.TERM);
        }
    }

    private void restart(RankProcess process) {
        Duration wait = launcher.backoff.multipliedBy(1L << Math.min(starts[process.rank] - 1, 20));
        wait = wait.compareTo(MAX_BACKOFF) > 0 ? MAX_BACKOFF : wait;
        restartsLeft--;
        startAtNs[process.rank] = System.nanoTime() + wait.toNanos();
        process.consequence = "it is restarted in " + wait.toMillis() + " ms, restart "
                + (launcher.restarts - restartsLeft) + " of at most " + launcher.restarts;
        report(process);
        if (coordinator != null) {
            coordinator.replace(process.rank, process.describeEnd());
        }
    }

    private void cancelRestarts() {
        for (int rank = 0; rank < startAtNs.length; rank++) {
            if (startAtNs[rank] != NEVER) {
                startAtNs[rank] = NEVER;
                err.printLine("rank " + rank + " is not restarted: the run has finished without it");
            }
        }
    }

    /** Returns whether a worker runs that was started at most {@code mostStarts} times. */
    private boolean isWorkerRunning(int mostStarts) {
        for (int rank = 0; rank < launcher.processes - launcher.servers; rank++) {
            if (!current[rank].hasEnded && starts[rank] <= mostStarts) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether a restarted worker was refused only because the others have finished the run. */
    private boolean isLeftBehind(RankProcess process) {
        return succeeded && starts[process.rank] > 1 && coordinator != null && coordinator.hasRefused(process.rank);
    }

    /**
     * Returns whether all workers have ended. Once a worker of this launch's group has finished the run, those that
     * wait for their restart count as ended: a restarted worker would find no other worker, train the whole run again
     * alone, and replace its last checkpoint.
     */
    private boolean workersAreDone() {
        boolean restartable = !succeeded || coordinator == null;
        for (int rank = 0; rank < launcher.processes - launcher.servers; rank++) {
            if (!current[rank].hasEnded || restartable && startAtNs[rank] != NEVER) {
                return false;
            }
        }
        return true;
    }

    /** Begins to end the launch: with a signal first, and after the grace period with SIGKILL. */
    private void end(int signal) {
        if (!ending) {
            ending = true;
            retireAtNs = NEVER;
            Arrays.fill(startAtNs, NEVER);
            killAtNs = System.nanoTime() + launcher.grace.toNanos();
            signalAll(signal);
        }
    }

    /** Gives the process that the group has lost time to end by itself: one that failed because of it may end first. */
    private void findCulprit() {
        int rank = coordinator == null ? -1 : coordinator.lostRank();
        if (rank >= 0 && rank < current.length && current[rank] != null && !current[rank].hasEnded) {
            culprit = current[rank];
            stopCulpritAtNs = System.nanoTime() + CULPRIT_NS;
        }
    }

    private void signalAll(int signal) {
        for (RankProcess process : current) {
            if (process != null && process.process.isAlive() && process != culprit) {
                process.signal(signal);
            }
        }
        remnants.forEach(p -> p.signal(signal));
    }

    private void finish(AutoCloseable signalHandling, @Nullable Throwable broken) {
        Throwable problem = broken != null ? broken : failed != null ? failed.failure() : failure;
        AutoCloseable output = () -> {
            closeLogs();
            out.flush();
            err.flush();
        };
        try (output; guardian; directory; coordinator; signalHandling) {
            signalAll(Signals.KILL);
        } catch (Exception e) {
            if (problem == null) {
                problem = e;
            } else {
                problem.addSuppressed(e);
            }
        }
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            // The hook itself waits for this.
        }
        if (problem != null) {
            outcome.completeExceptionally(problem);
        } else {
            outcome.complete(signalled == 0 ? 0 : Signals.STATUS_BASE + signalled);
        }
    }

    private void openLogs() throws IOException {
        for (int rank = 0; launcher.logs != null && rank < logs.length; rank++) {
            logs[rank] = RankLog.open(launcher.logs, rank);
        }
    }

    private void closeLogs() {
        for (RankLog log : logs) {
            if (log != null) {
                log.close();
            }
        }
    }
}
