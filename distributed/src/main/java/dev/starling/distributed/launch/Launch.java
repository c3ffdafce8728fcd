package dev.starling.distributed.launch;

import dev.starling.distributed.CoordinatorThread;
import dev.starling.distributed.DistributedException;
import java.io.IOException;
import java.nio.file.Files;
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

/** Processes that a {@link Launcher} started, until the last of them is gone. Safe for use by several threads. */
public final class Launch implements AutoCloseable {
    private static final long NEVER = Long.MAX_VALUE;
    private static final Duration MAX_BACKOFF = Duration.ofSeconds(30);
    private static final int NOT_FOUND = 127;
    /** A killed process is gone as soon as the kernel lets go of it. */
    private static final long KILLED_NS = TimeUnit.SECONDS.toNanos(5);
    /** Nobody tells of the end of what a process started: it is looked for this often. */
    private static final long REMNANTS_NS = TimeUnit.MILLISECONDS.toNanos(10);

    /** What the supervisor hears of. */
    private sealed interface Event {
        record Ended(RankProcess process) implements Event { }

        record Through(RankProcess process) implements Event { }

        record Heard(int signal) implements Event { }

        record Unread() implements Event { }

        record Close() implements Event { }
    }

    private final Launcher how;
    private final BlockingQueue<Event> events = new LinkedBlockingQueue<>();
    private final CompletableFuture<Integer> outcome = new CompletableFuture<>();
    private final LaunchDirectory directory;
    private final Path secretFile;
    private final Guardian guardian;
    private CoordinatorThread coordinator;
    private final Console out;
    private final Console err;
    private final List<String> session;
    private final Thread hook = new Thread(this::close, "starling-launch-hook");
    private final RankProcess[] current;
    private final int[] starts;
    private final long[] startAtNs;
    /** Ended, but some of what they started is not. */
    private final List<RankProcess> remnants = new ArrayList<>();
    /** Processes that run, and those whose output is not through. */
    private int running;
    private int draining;
    private int restartsLeft;
    private int tolerancesLeft;
    private RankProcess failed;
    private boolean succeeded;
    private LaunchException failure;
    private int signalled;
    private boolean ending;
    /** When servers whose workers are done, and who end by themselves, are told to. */
    private long retireAtNs = NEVER;
    private long killAtNs = NEVER;
    private long giveUpAtNs = NEVER;

    private Launch(Launcher how) throws IOException {
        this.how = how;
        session = Launcher.session();
        out = new Console(how.standardOutput, Console.isTerminal(1), how.processes);
        err = new Console(how.standardError, Console.isTerminal(2), how.processes);
        current = new RankProcess[how.processes];
        starts = new int[how.processes];
        startAtNs = new long[how.processes];
        restartsLeft = how.restarts;
        tolerancesLeft = how.tolerated;
        directory = LaunchDirectory.make(how.environment.getOrDefault(LaunchedProcess.DIRECTORY,
                System.getenv(LaunchedProcess.DIRECTORY)), how.processes);
        try {
            guardian = Guardian.start(session, directory.path(), how.grace);
        } catch (IOException | RuntimeException e) {
            directory.close();
            throw e;
        }
        try {
            secretFile = directory.write(how.secret);
            coordinator = how.coordinatorFactory == null ? null
                    : how.coordinatorFactory.open(how.secret, directory.path(), how.processes);
        } catch (IOException | RuntimeException e) {
            directory.close();
            guardian.close();
            throw e;
        }
    }

    static Launch start(Launcher how) {
        requireCommand(how.command.getFirst());
        Launch launch;
        try {
            launch = new Launch(how);
        } catch (IOException e) {
            throw new LaunchException(-1, 1, "the launch cannot begin: " + e, List.of(), e);
        }
        Thread.ofPlatform().name("starling-launch").start(launch::supervise);
        return launch;
    }

    private static void requireCommand(String name) {
        Path path = Path.of(name);
        List<Path> candidates = path.getNameCount() > 1 || path.isAbsolute() ? List.of(path)
                : Arrays.stream(System.getenv().getOrDefault("PATH", "/usr/bin:/bin").split(":"))
                        .map(folder -> Path.of(folder).resolve(name)).toList();
        if (candidates.stream().noneMatch(c -> Files.isRegularFile(c) && Files.isExecutable(c))) {
            throw new LaunchException(NOT_FOUND, "there is no command '" + name + "' "
                    + (candidates.size() == 1 ? "" : "on the PATH ") + "that may be executed; check the spelling, or "
                    + "give its whole path");
        }
    }

    /** Returns the process number of a rank, the latest if it was started again; 0 before it is started. */
    public long pid(int rank) {
        RankProcess process;
        synchronized (current) {
            process = current[rank];
        }
        return process == null ? 0 : process.process.pid();
    }

    /** Returns the folder in which the processes may keep files, which goes with the launch. */
    public Path directory() {
        return directory.path();
    }

    /**
     * Waits until all processes have ended.
     *
     * @return 0, or 128 + the number of the signal by which this process was told to end
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
     * Waits until all processes have ended, but no longer than that.
     *
     * @throws TimeoutException if they run on
     */
    public int await(Duration longest) throws TimeoutException, InterruptedException {
        try {
            return outcome.get(longest.toNanos(), TimeUnit.NANOSECONDS);
        } catch (ExecutionException e) {
            throw rethrown(e.getCause());
        }
    }

    private static RuntimeException rethrown(Throwable cause) {
        return cause instanceof LaunchException e
                ? new LaunchException(e.rank(), e.status(), e.getMessage(), e.lastLines(), e)
                : new DistributedException("the launch's supervisor failed", cause);
    }

    /** Ends processes that still run, as SIGTERM would, and waits until they are gone. */
    @Override
    public void close() {
        events.add(new Event.Close());
        try {
            outcome.get(how.grace.toNanos() + 2 * KILLED_NS, TimeUnit.NANOSECONDS);
        } catch (ExecutionException | TimeoutException told) {
            // await() tells of failures.
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private void supervise() {
        Throwable broken = null;
        AutoCloseable hearing = () -> { };
        try {
            if (how.signals) {
                hearing = Signals.hear(signal -> events.add(new Event.Heard(signal)));
            }
            Runtime.getRuntime().addShutdownHook(hook);
            for (int rank = 0; rank < how.processes; rank++) {
                startAtNs[rank] = System.nanoTime();
            }
            for (act(); !isOver(); act()) {
                Event event = events.poll(nextNs() - System.nanoTime(), TimeUnit.NANOSECONDS);
                if (event != null) {
                    handle(event);
                }
            }
        } catch (Throwable e) {
            broken = e;
        }
        finish(hearing, broken);
    }

    private boolean isOver() {
        return ending && running == 0 && draining == 0 && remnants.isEmpty() || System.nanoTime() > giveUpAtNs;
    }

    private long nextNs() {
        long next = Math.min(retireAtNs, Math.min(killAtNs, giveUpAtNs));
        for (long at : startAtNs) {
            next = Math.min(next, at);
        }
        long latest = System.nanoTime() + (ending && running == 0 ? REMNANTS_NS : TimeUnit.HOURS.toNanos(1));
        return Math.min(next, latest);
    }

    /** Does what its time has come for. */
    private void act() {
        for (int rank = 0; rank < how.processes && !ending; rank++) {
            if (startAtNs[rank] != NEVER && System.nanoTime() >= startAtNs[rank]) {
                startAtNs[rank] = NEVER;
                startRank(rank);
            }
        }
        remnants.removeIf(this::isGone);
        if (System.nanoTime() >= retireAtNs) {
            end(Signals.TERM);
        }
        if (System.nanoTime() >= killAtNs) {
            killAtNs = NEVER;
            signalAll(Signals.KILL);
            giveUpAtNs = System.nanoTime() + KILLED_NS;
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
        builder.command().addAll(how.command);
        builder.redirectInput(ProcessBuilder.Redirect.from(Path.of("/dev/null").toFile()));
        variables(rank, builder.environment());
        RankProcess process;
        try {
            process = RankProcess.start(rank, builder, !session.isEmpty());
        } catch (IOException e) {
            failure = new LaunchException(rank, 1, "rank " + rank + " cannot be started: " + e.getMessage(),
                    List.of(), e);
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
        boolean first = how.output == Launcher.Output.FIRST_RANK;
        process.pump(out, err, first ? OutputPump.Style.PLAIN : OutputPump.Style.PREFIXED, !first
                ? OutputPump.Style.PREFIXED : rank == 0 ? OutputPump.Style.PLAIN : OutputPump.Style.KEPT,
                () -> events.add(new Event.Unread()));
        process.onEnd(() -> events.add(new Event.Ended(process)), () -> events.add(new Event.Through(process)));
    }

    private void variables(int rank, Map<String, String> variables) {
        variables.keySet().removeAll(List.of(LaunchedProcess.SECRET, LaunchedProcess.COORDINATOR));
        variables.put(LaunchedProcess.RANK, Integer.toString(rank));
        variables.put(LaunchedProcess.WORLD, Integer.toString(how.processes));
        variables.put(LaunchedProcess.LOCAL_WORLD, Integer.toString(how.processes));
        variables.put(LaunchedProcess.SERVERS, Integer.toString(how.servers));
        variables.put(LaunchedProcess.SECRET_FILE, secretFile.toString());
        variables.put(LaunchedProcess.RESTART, Integer.toString(starts[rank]));
        variables.put(LaunchedProcess.COORDINATOR_RANK, LaunchedProcess.NONE);
        String address = coordinator != null ? coordinator.address() : how.coordinator;
        if (address != null) {
            variables.put(LaunchedProcess.COORDINATOR, address);
        }
        variables.putAll(how.environment);
        variables.put(LaunchedProcess.DIRECTORY, directory.path().toString());
    }

    private void handle(Event event) {
        switch (event) {
            case Event.Ended e -> ended(e.process);
            case Event.Through e -> {
                draining--;
                e.process.isThrough = true;
                tell(e.process);
            }
            case Event.Close c -> end(Signals.TERM);
            case Event.Unread u -> {
                if (!ending) {
                    signalled = 13;
                    end(Signals.TERM);
                }
            }
            case Event.Heard h -> {
                if (ending && signalled != 0) {
                    killAtNs = System.nanoTime();
                } else {
                    signalled = h.signal;
                    end(h.signal);
                }
            }
        }
    }

    /** Tells of a failure that is not the end of all, once its last lines and what follows from it are known. */
    private void tell(RankProcess process) {
        if (process.isThrough && process.consequence != null) {
            err.say(account(process) + "\n    " + process.consequence);
        }
    }

    private void ended(RankProcess process) {
        running--;
        process.hasEnded = true;
        // What it started has no reason to go on.
        if (process.signal(Signals.TERM)) {
            remnants.add(process);
        } else {
            guardian.remove(process.target);
        }
        boolean bad = process.process.exitValue() != 0;
        boolean worker = process.rank < how.processes - how.servers;
        if (ending) {
            return;
        }
        if (retireAtNs != NEVER) {
            retireIfAlone();
            return;
        }
        if (bad && restartsLeft > 0) {
            restart(process);
            return;
        }
        if (bad) {
            failed = failed == null || !worker ? process : failed;
            if (tolerancesLeft == 0 || !worker) {
                end(Signals.TERM);
                return;
            }
            tolerancesLeft--;
            process.consequence = "the others go on without it";
            tell(process);
        } else {
            succeeded |= worker;
        }
        if (workersAreDone()) {
            failed = succeeded ? null : failed;
            Arrays.fill(startAtNs, NEVER);
            retireAtNs = System.nanoTime() + how.grace.toNanos();
            retireIfAlone();
        }
    }

    /** Ends the launch if no server has anything to bring to its end any more. */
    private void retireIfAlone() {
        if (running == 0 || failed != null) {
            end(Signals.TERM);
        }
    }

    private void restart(RankProcess process) {
        Duration wait = how.backoff.multipliedBy(1L << Math.min(starts[process.rank] - 1, 20));
        wait = wait.compareTo(MAX_BACKOFF) > 0 ? MAX_BACKOFF : wait;
        restartsLeft--;
        startAtNs[process.rank] = System.nanoTime() + wait.toNanos();
        process.consequence = "it is started again in " + wait.toMillis() + " ms, restart "
                + (how.restarts - restartsLeft) + " of at most " + how.restarts;
        tell(process);
    }

    private boolean workersAreDone() {
        for (int rank = 0; rank < how.processes - how.servers; rank++) {
            if (startAtNs[rank] != NEVER || !current[rank].hasEnded) {
                return false;
            }
        }
        return true;
    }

    /** Begins the end: a signal first, and after the grace SIGKILL. */
    private void end(int signal) {
        if (!ending) {
            ending = true;
            retireAtNs = NEVER;
            Arrays.fill(startAtNs, NEVER);
            killAtNs = System.nanoTime() + how.grace.toNanos();
            signalAll(signal);
        }
    }

    private void signalAll(int signal) {
        for (RankProcess process : current) {
            if (process != null && process.process.isAlive()) {
                process.signal(signal);
            }
        }
        remnants.forEach(p -> p.signal(signal));
    }

    private void finish(AutoCloseable hearing, Throwable broken) {
        Throwable problem = broken;
        try {
            signalAll(Signals.KILL);
            hearing.close();
            if (coordinator != null) {
                coordinator.close();
            }
            directory.close();
            guardian.close();
            out.flush();
            err.flush();
        } catch (Exception e) {
            problem = problem == null ? e : problem;
        }
        try {
            Runtime.getRuntime().removeShutdownHook(hook);
        } catch (IllegalStateException shuttingDown) {
            // The hook is what waits for this.
        }
        if (problem != null) {
            outcome.completeExceptionally(problem);
        } else if (failed != null) {
            outcome.completeExceptionally(told(failed));
        } else if (failure != null) {
            outcome.completeExceptionally(failure);
        } else {
            outcome.complete(signalled == 0 ? 0 : Signals.STATUS_BASE + signalled);
        }
    }

    private static LaunchException told(RankProcess process) {
        return new LaunchException(process.rank, process.process.exitValue(), account(process), process.lastLines(),
                null);
    }

    /** Tells how a process ended and what it said last. */
    private static String account(RankProcess process) {
        List<String> lines = process.lastLines();
        return process.describeEnd() + (lines.isEmpty() ? " without a word"
                : "; its last lines:\n    " + String.join("\n    ", lines));
    }
}
