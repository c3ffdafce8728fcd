package dev.starling.distributed.schedule;

import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import java.util.ArrayList;
import java.util.List;

/** What a plan of faults lets one expect: who is heard all the time by those who count, and whose loss is no wonder. */
record Forecast(FaultPlan plan) {
    static final String COORDINATOR = "coordinator";

    /** Shorter ones, taken together, are survived by sending again: with bad weather they are no silence yet. */
    private static final long HARMLESS_NS = Schedule.SILENCE.toNanos() * 2 / 5;
    /** Of a longer one everybody takes notice, so that nobody is suspected who did nothing. */
    private static final long NOTICED_NS = Schedule.SILENCE.toNanos() * 2;

    /** A time within which something is wrong between two processes. */
    record Trouble(long fromNs, long toNs) { }

    /** Returns whether nothing is so bad that anybody is to be lost. */
    boolean isFair() {
        return !isAnyHarmed() && plan.ranks().stream().noneMatch(this::isMortal);
    }

    /** Returns whether any two that live may give each other up. */
    boolean isAnyHarmed() {
        return plan.ranks().stream().anyMatch(a -> plan.ranks().stream().anyMatch(b -> !a.equals(b) && isHarmed(a, b)));
    }

    /** Returns whether a process crashes, if it lives so long. */
    boolean isMortal(String process) {
        return plan.faults().stream().anyMatch(f -> f instanceof Fault.Crash c && c.process().equals(process));
    }

    /**
     * Returns whether nobody has a reason to exclude a process: the coordinator hears it, as do all whom the
     * coordinator hears.
     */
    boolean isUnharmed(String process) {
        return !isMortal(process) && !isMortal(COORDINATOR) && !isHarmed(process, COORDINATOR)
                && plan.ranks().stream().allMatch(other -> other.equals(process) || other.equals(COORDINATOR)
                        || !isHarmed(process, other) || isExcluded(other, process));
    }

    /** Returns whether what is wrong between two processes may be enough for one to give the other up. */
    boolean isHarmed(String a, String b) {
        return plan.faults().stream().anyMatch(f -> f instanceof Fault.Break && isBetween(f, a, b))
                || length(plan.faults(), a, b) >= HARMLESS_NS;
    }

    /** Returns whether all that is wrong between two is that one of them is gone for long, for the coordinator too. */
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

    /** Returns whether a fault keeps what one of two processes says from the other; crashes are not asked for here. */
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

    /** Returns when something is wrong between a process and any other, if that may be enough to be given up. */
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
