package dev.starling.distributed.conformance;

import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import java.util.ArrayList;
import java.util.List;

/** The effects that a fault plan may have: which processes must survive it, and which losses it explains. */
record ExpectedEffects(FaultPlan plan) {
    static final String COORDINATOR = "coordinator";

    /**
     * Total length of interruptions that retransmission survives: even with packet loss they do not reach the liveness
     * timeout.
     */
    private static final long HARMLESS_NS = Schedule.SILENCE.toNanos() * 2 / 5;
    /** Length from which on every process detects an interruption, so that no unaffected process is suspected. */
    private static final long NOTICED_NS = Schedule.SILENCE.toNanos() * 2;

    /** An interval in which a fault affects two processes. */
    record Trouble(long fromNs, long toNs) { }

    /** Returns whether no process may be lost. */
    boolean isFair() {
        return !isAnyHarmed() && plan.ranks().stream().noneMatch(this::isMortal);
    }

    /**
     * Returns whether no rank may be lost; the coordinator may. A coordinator that has lost its connection to one rank
     * only excludes it, and the others may have finished when it returns.
     */
    boolean isFairToRanks() {
        List<String> ranks = plan.ranks().stream().filter(r -> !r.equals(COORDINATOR)).toList();
        return ranks.stream().noneMatch(a -> isMortal(a) || mayBeLostAlone(a) || ranks.stream()
                .anyMatch(b -> !a.equals(b) && isHarmed(a, b)));
    }

    /** Returns whether the coordinator may lose a rank while it keeps others. */
    private boolean mayBeLostAlone(String rank) {
        return isHarmed(rank, COORDINATOR) && (length(plan.faults(), rank, COORDINATOR) < NOTICED_NS
                || plan.faults().stream().anyMatch(f -> f instanceof Fault.Break && isBetween(f, rank, COORDINATOR)));
    }

    /** Returns whether any two live processes may lose each other. */
    boolean isAnyHarmed() {
        return plan.ranks().stream().anyMatch(a -> plan.ranks().stream().anyMatch(b -> !a.equals(b) && isHarmed(a, b)));
    }

    /** Returns whether the plan crashes a process, if it runs that long. */
    boolean isMortal(String process) {
        return plan.faults().stream().anyMatch(f -> f instanceof Fault.Crash c && c.process().equals(process));
    }

    /**
     * Returns whether a process must not be excluded: it stays connected to the coordinator and to all processes that
     * are connected to the coordinator.
     */
    boolean isUnharmed(String process) {
        return !isMortal(process) && !isMortal(COORDINATOR) && !isHarmed(process, COORDINATOR)
                && plan.ranks().stream().allMatch(other -> other.equals(process) || other.equals(COORDINATOR)
                        || !isHarmed(process, other) || isExcluded(other, process));
    }

    /** Returns whether the faults between two processes may be enough for one to lose the other. */
    boolean isHarmed(String a, String b) {
        return plan.faults().stream().anyMatch(f -> f instanceof Fault.Break && isBetween(f, a, b))
                || length(plan.faults(), a, b) >= HARMLESS_NS;
    }

    /**
     * Returns whether the only fault between two processes is that one is cut off for long, from the coordinator too.
     */
    private boolean isExcluded(String one, String process) {
        List<Fault> other = new ArrayList<>(plan.faults());
        other.removeIf(f -> isBetween(f, one, process) && isBetween(f, one, COORDINATOR)
                && length(List.of(f), one, process) >= NOTICED_NS && !(f instanceof Fault.Cut c && !c.bothWays()));
        return length(other, one, process) < HARMLESS_NS
                && other.stream().noneMatch(f -> f instanceof Fault.Break && isBetween(f, one, process));
    }

    private static long length(List<Fault> faults, String a, String b) {
        return faults.stream().filter(f -> isBetween(f, a, b)).mapToLong(f -> to(f) - f.at().toNanos()).sum();
    }

    private static long to(Fault fault) {
        return fault.at().toNanos() + switch (fault) {
            case Fault.Cut f -> f.length().toNanos();
            case Fault.Pause f -> f.length().toNanos();
            case Fault.Crash _, Fault.Break _ -> 0;
        };
    }

    /** Returns whether a fault interrupts messages between two processes; crashes do not count here. */
    private static boolean isBetween(Fault fault, String a, String b) {
        return switch (fault) {
            case Fault.Cut f -> f.from().contains(a) && f.to().contains(b) || f.from().contains(b)
                    && f.to().contains(a);
            case Fault.Pause f -> f.process().equals(a) || f.process().equals(b);
            case Fault.Break f -> f.first().equals(a) && f.second().equals(b) || f.first().equals(b)
                    && f.second().equals(a);
            case Fault.Crash _ -> false;
        };
    }

    /** Returns the intervals of faults between a process and any other that may be enough for a loss. */
    List<Trouble> troubles(String process) {
        List<Trouble> found = new ArrayList<>();
        for (String other : plan.ranks()) {
            if (!other.equals(process) && isHarmed(process, other)) {
                plan.faults().stream().filter(f -> isBetween(f, process, other))
                        .forEach(f -> found.add(new Trouble(f.at().toNanos(), to(f))));
            }
        }
        return found;
    }
}
