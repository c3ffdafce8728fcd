package dev.starling.transport.simulated;

import dev.starling.transport.spi.Wire;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.PriorityQueue;
import java.util.SplittableRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * Processes and the network between them, in one JVM, in virtual time, one process at a time: the same seed gives the
 * same run, with the same delays and faults, regardless of the load on the machine.
 *
 * <pre>{@code
 * try (Simulation simulation = Simulation.of(FaultPlan.random(seed, List.of("a", "b"), Duration.ofSeconds(5)))) {
 *     for (String name : List.of("a", "b")) {
 *         simulation.start(name, () -> {
 *             try (Transport transport = Transport.over(simulation.wire(name), config)) {
 *                 ...
 *             }
 *         });
 *     }
 *     simulation.run(Duration.ofSeconds(60));
 * }
 * }</pre>
 *
 * <p>A process runs until it idles on its wire, as all code that waits for a peer does; then the seed chooses the
 * process that runs next. Time passes when no process has anything to do: to the next arrival, the next fault, or the
 * end of an idle period, which grows with the time that a process has been idle, up to 12.5 ms. Computation takes no
 * virtual time, except by {@link #sleep}. The clocks of wires differ from each other, as those of machines do.
 *
 * <p>Used by one thread, and by the processes that it runs.
 */
public final class Simulation implements AutoCloseable {
    private static final long MIN_IDLE_NS = 2_000;
    private static final long MAX_IDLE_NS = 10_000_000;
    private static final long MAX_SKEW_NS = TimeUnit.HOURS.toNanos(1);
    private static final int REAL_CLOCK_EVERY = 4096;

    private final String description;
    private final SplittableRandom random;
    private final SplittableRandom userRandom;
    private final Map<String, SimulatedProcess> processes = new HashMap<>();
    private final Map<String, SimulatedWire> wires = new HashMap<>();
    private final List<SimulatedWire> open = new ArrayList<>();
    private final List<Flow> tasks = new ArrayList<>();
    private final RunQueue queue = new RunQueue();
    private final PriorityQueue<Event> events = new PriorityQueue<>();
    private final Cuts cuts = new Cuts();
    private final MessagePool pool = new MessagePool();
    private Conditions conditions;
    /** {@code null} between turns, and where the simulation runs in the calling thread. */
    private @Nullable Flow current;
    private long now;
    private long eventCount;
    private long passes;
    private long flowCount;
    private long fingerprint;
    private boolean mapsMemory;
    private long operationNs = 50;
    private long maxRealNs = TimeUnit.MINUTES.toNanos(2);

    private Simulation(long seed, Conditions conditions, String description) {
        random = new SplittableRandom(seed);
        userRandom = random.split();
        this.conditions = conditions;
        this.description = description;
    }

    /** Creates a simulation of a good network. */
    public static Simulation of(long seed) {
        return new Simulation(seed, Conditions.GOOD, "seed " + seed);
    }

    /** Creates a simulation in which the faults of a plan happen. */
    public static Simulation of(FaultPlan plan) {
        Simulation made = new Simulation(plan.seed(), plan.conditions(), plan.toString());
        plan.faults().forEach(made::plan);
        return made;
    }

    /**
     * Sets how long {@link #run} may take in real time; the default is two minutes. A run that takes longer ends with
     * an exception, so that a loop in which no virtual time passes does not last forever.
     */
    public Simulation realTimeLimit(Duration atMost) {
        maxRealNs = atMost.toNanos();
        return this;
    }

    /**
     * Sets the virtual time of one use of a wire, 50 ns by default. Processes run one at a time, so that the times of
     * all of them add up: a simulation of many processes that is to predict times needs a shorter one.
     */
    public Simulation operationTime(Duration time) {
        operationNs = Math.max(1, time.toNanos());
        return this;
    }

    /**
     * Lets processes map each other's memory, as processes of one host do; what they write there takes no virtual time.
     * By default all data travel over the simulated network. A group maps memory only among members of one host.
     */
    public Simulation mapsMemory(boolean allowed) {
        mapsMemory = allowed;
        return this;
    }

    boolean mapsMemory() {
        return mapsMemory;
    }

    /** Code of a simulated process. */
    @FunctionalInterface
    public interface Body {
        /** Runs the process; an exception ends the simulation. */
        void run() throws Exception;
    }

    /**
     * Creates a wire of a process. Its address is the process's name, with a number appended if that is in use.
     *
     * @param name of the process, which need not have been started
     */
    public Wire wire(String name) {
        SimulatedProcess process = process(name);
        String address = name;
        for (int i = 2; wires.containsKey(address); i++) {
            address = name + '-' + i;
        }
        SimulatedWire wire = new SimulatedWire(this, name, address, random.nextLong(MAX_SKEW_NS));
        wires.put(address, wire);
        open.add(wire);
        process.wires.add(wire);
        return wire;
    }

    /**
     * Starts a process, or another flow of a process. If the process has crashed, this restarts it.
     *
     * @param body the process's flow ends when it returns; an exception ends the simulation
     */
    public void start(String name, Body body) {
        Flow task = new Flow(process(name), flowCount++);
        task.untilNs = now;
        task.coroutine = new Coroutine(name, () -> {
            try {
                body.run();
            } catch (Throwable e) {
                task.failure = e;
            }
        });
        tasks.add(task);
        queue.add(task, now);
    }

    private SimulatedProcess process(String name) {
        return processes.compute(name, (n, p) -> p == null || p.endReason != null ? new SimulatedProcess(n) : p);
    }

    /** Schedules an action at a time since the beginning; it runs while no process does. */
    public void at(Duration time, Runnable action) {
        events.add(new Event(time.toNanos(), eventCount++, action));
    }

    /**
     * Runs until all processes have ended.
     *
     * @param deadline in virtual time since the beginning
     * @throws SimulationException if a process throws an exception, or does not end in time; the message shows the
     *     stack of each process
     */
    public void run(Duration deadline) {
        if (Coroutine.canCarry() || Thread.currentThread().isVirtual()) {
            runHere(deadline.toNanos());
            return;
        }
        Throwable[] thrown = new Throwable[1];
        Thread thread = Thread.ofVirtual().name("starling-simulation").start(() -> {
            try {
                runHere(deadline.toNanos());
            } catch (Throwable e) {
                thrown[0] = e;
            }
        });
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SimulationException("interrupted", e);
        }
        switch (thrown[0]) {
            case null -> { }
            case RuntimeException e -> throw e;
            case Error e -> throw e;
            case Throwable e -> throw new IllegalStateException(e);
        }
    }

    private void runHere(long deadlineNs) {
        long realBegin = System.nanoTime();
        try {
            while (!tasks.isEmpty()) {
                runEvents();
                Flow next = choose(deadlineNs);
                if (next != null) {
                    resume(next);
                }
                if (++passes % REAL_CLOCK_EVERY == 0 && System.nanoTime() - realBegin > maxRealNs) {
                    throw new SimulationException("reached " + now() + " in " + passes + " turns and the limit of real "
                            + "time, " + Duration.ofNanos(maxRealNs) + " (realTimeLimit)\n" + description, null);
                }
            }
        } finally {
            stop("the simulation is over");
        }
    }

    private void runEvents() {
        boolean any = false;
        while (!events.isEmpty() && events.peek().timeNs() <= now) {
            events.poll().action().run();
            any = true;
        }
        if (any) {
            queue.refresh(tasks, now);
        }
    }

    /** Returns the flow that runs next, or {@code null} after advancing the time. */
    private @Nullable Flow choose(long deadlineNs) {
        Flow chosen = queue.choose(now, random);
        long earliest = Math.min(events.isEmpty() ? Long.MAX_VALUE : events.peek().timeNs(), queue.nextNs());
        if (chosen == null ? earliest > deadlineNs : now > deadlineNs) {
            throw hang(deadlineNs);
        }
        if (chosen == null) {
            now = earliest;
        }
        return chosen;
    }

    private void resume(Flow task) {
        queue.remove(task);
        if (task.process.endReason != null && !task.coroutine.hasBegun()) {
            tasks.remove(task);
            return;
        }
        if (task.unwindings >= Unwinding.ATTEMPTS) {
            tasks.remove(task);
            throw new SimulationException(task.process.name + " catches every exception and continues, so it cannot be"
                    + " ended\n" + description, task.unwinding);
        }
        current = task;
        boolean alive;
        try {
            alive = task.coroutine.resume();
        } finally {
            current = null;
        }
        if (alive) {
            queue.add(task, now);
            return;
        }
        tasks.remove(task);
        if (task.failure != null && task.process.endReason == null) {
            throw new SimulationException(task.process.name + " failed at " + now() + ": " + task.failure + "\n"
                    + description, task.failure);
        }
    }

    private SimulationException hang(long deadlineNs) {
        List<Flow> hanging = List.copyOf(tasks);
        stop("did not end by " + Duration.ofNanos(deadlineNs));
        StringBuilder text = new StringBuilder(hanging.size() + " of " + processes.size() + " processes did not end by "
                + Duration.ofNanos(deadlineNs) + "\n" + description);
        for (Flow task : hanging) {
            text.append("\n").append(task);
        }
        return new SimulationException(text.toString(), null);
    }

    /** Unwinds all processes, so that no thread remains. */
    private void stop(String why) {
        for (Flow task : List.copyOf(tasks)) {
            task.process.endReason = task.process.endReason == null ? why : task.process.endReason;
            while (task.unwindings < Unwinding.ATTEMPTS && tasks.contains(task)) {
                resume(task);
            }
        }
        tasks.forEach(queue::remove);
        tasks.clear();
    }

    /** Returns the virtual time since the beginning. */
    public Duration now() {
        return Duration.ofNanos(now);
    }

    /** Returns the virtual time since the beginning in nanoseconds; no wire's clock shows it. */
    public long nanoTime() {
        return now;
    }

    /** Returns a source of random numbers for the processes, which depends on the seed. */
    public SplittableRandom random() {
        return userRandom;
    }

    long passes() {
        return passes;
    }

    /** Returns a fingerprint: equal for two runs in which the same messages arrived at the same times. */
    public long fingerprint() {
        return fingerprint;
    }

    /** Advances the current process by a time in which it computes or sleeps and does not look at messages. */
    public void sleep(Duration time) {
        if (current == null) {
            now += time.toNanos();
            return;
        }
        await(current, null, now + time.toNanos());
    }

    // Faults.

    /** Changes the network's behaviour from now on. */
    public void conditions(Conditions newConditions) {
        conditions = newConditions;
    }

    /** Schedules a fault. */
    public void plan(Fault fault) {
        switch (fault) {
            case Fault.Cut f -> {
                at(f.at(), () -> cut(f, true));
                at(f.at().plus(f.length()), () -> cut(f, false));
            }
            case Fault.Pause f -> {
                at(f.at(), () -> process(f.process()).pauses++);
                at(f.at().plus(f.length()), () -> process(f.process()).pauses--);
            }
            case Fault.Crash f -> at(f.at(), () -> process(f.process()).operationsLeft = f.operations());
            case Fault.Break f -> at(f.at(), () -> breakLinks(f.first(), f.second()));
        }
    }

    private void cut(Fault.Cut fault, boolean begins) {
        for (String from : fault.from()) {
            for (String to : fault.to()) {
                cut(from, to, begins);
                if (fault.bothWays()) {
                    cut(to, from, begins);
                }
            }
        }
    }

    private void cut(String from, String to, boolean begins) {
        boolean nowCut = cuts.change(from, to, begins);
        forLinks((link, wire) -> {
            if (link.from.equals(from) && wire.process().equals(to)) {
                link.cut(nowCut);
            }
        });
    }

    /** Ends a process wherever it is. Whether its peers' links notice is random; its last messages may be lost. */
    private void crash(SimulatedProcess process) {
        process.endReason = process.name + " crashed";
        boolean noticed = random.nextBoolean();
        double lost = random.nextDouble();
        List<SimulatedWire> dead = List.copyOf(process.wires);
        dead.forEach(w -> w.crash(noticed));
        forLinks((link, wire) -> {
            if (dead.contains(link.origin())) {
                link.breakOff(lost);
            }
        });
        queue.refresh(tasks, now);
    }

    /** Breaks the links between two processes and loses messages in flight. New links can be opened. */
    private void breakLinks(String first, String second) {
        forLinks((link, wire) -> {
            if (link.from.equals(first) && wire.process().equals(second)
                    || link.from.equals(second) && wire.process().equals(first)) {
                link.breakOff(1);
            }
        });
    }

    private void forLinks(BiConsumer<SimulatedLink, SimulatedWire> action) {
        for (SimulatedWire wire : open) {
            wire.inbound().forEach(link -> action.accept(link, wire));
        }
    }

    // Used by wires.

    boolean isCut(String from, String to) {
        return cuts.isCut(from, to);
    }

    @Nullable SimulatedWire wireAt(String address) {
        return wires.get(address);
    }

    /** Considers that the flows that wait on a wire may wake at another time. */
    void refresh(SimulatedWire wire) {
        queue.refresh(wire.waiting(), now);
    }

    void forget(SimulatedWire wire) {
        wires.remove(wire.address(), wire);
        open.remove(wire);
    }

    Conditions conditions() {
        return conditions;
    }

    MessagePool pool() {
        return pool;
    }

    SplittableRandom randomness() {
        return random;
    }

    boolean happens(double share) {
        return share > 0 && random.nextDouble() < share;
    }

    /** Draws the time for which a message is in flight. */
    long delay(Conditions c) {
        long delay = c.latency().toNanos() + random.nextLong(c.jitter().toNanos() + 1);
        for (long again = c.retransmission().toNanos(); happens(c.loss()); again *= 2) {
            delay += again;
        }
        return delay;
    }

    /** Includes an arriving message in the fingerprint. */
    void observe(SimulatedWire at, int length) {
        fingerprint = (fingerprint ^ now * 31 + at.address().hashCode() * 17L + length) * 0x9E3779B97F4A7C15L;
    }

    /** Counts a use of a wire, at which the process may crash. */
    void operate() {
        now += operationNs;
        if (current != null && current.process.endReason == null && current.process.operationsLeft >= 0
                && current.process.operationsLeft-- == 0) {
            crash(current.process);
            checkEnded();
        }
    }

    /** Ends the current process if it has crashed or the simulation is over. */
    void checkEnded() {
        if (current != null && current.process.endReason != null) {
            unwind(current, current.process.endReason);
        }
    }

    private void unwind(Flow task, String why) {
        Unwinding unwinding = new Unwinding(why);
        if (task.unwinding == null) {
            task.unwinding = unwinding;
        }
        if (++task.unwindings >= Unwinding.ATTEMPTS) {
            // The process catches every exception. Leave it suspended.
            task.coroutine.yield();
        }
        throw unwinding;
    }

    /** Lets other processes run until a message arrives at the wire, or some time has passed. */
    void idle(SimulatedWire wire, long idleNs) {
        long maxIdleNs = Math.clamp(idleNs / 2, MIN_IDLE_NS, MAX_IDLE_NS);
        long until = now + maxIdleNs + random.nextLong(maxIdleNs / 4);
        if (current != null) {
            await(current, wire, until);
            return;
        }
        long next = until;
        for (SimulatedWire any : open) {
            next = Math.min(next, any.nextArrivalNs());
        }
        now = Math.max(now, next);
        runEvents();
    }

    private void await(Flow task, @Nullable SimulatedWire wire, long untilNs) {
        checkEnded();
        task.waitsOn = wire;
        task.untilNs = untilNs;
        task.coroutine.yield();
        checkEnded();
    }

    @Override
    public String toString() {
        return description;
    }

    /** Ends all processes that still run. */
    @Override
    public void close() {
        stop("the simulation was closed");
    }
}
