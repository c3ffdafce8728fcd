package dev.starling.distributed.chaos;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.chaos.Fault.Outcome;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** Faults in a cluster, one after the other, and what came of each. */
final class Chaos {
    /** Longer than the liveness timeout of the clusters. */
    private static final long STOP_MS = ChaosCluster.SILENCE_MS + 1_500;
    private static final long BRIEF_MS = ChaosCluster.SILENCE_MS / 4;
    private static final long MAX_START_MS = 1_500;
    private static final int PROGRESS = 10;
    private static final long RETURN_NS = TimeUnit.SECONDS.toNanos(10);

    private final Map<String, List<Long>> measured = new TreeMap<>();
    /** What was measured of the last fault. */
    private final List<String> lastTimes = new ArrayList<>();
    private int faults;

    /** Lets one fault happen in a cluster all of whose members train, and brings it back to that state. */
    void happen(Fault fault, ChaosCluster cluster, SplittableRandom random) {
        faults++;
        lastTimes.clear();
        long begin = System.nanoTime();
        try {
            if (fault == Fault.COORDINATOR_KILLED) {
                killCoordinator(cluster);
            } else if (fault == Fault.KILLED_BEFORE_START) {
                killBeforeStart(cluster, random);
            } else {
                harm(fault, cluster, random);
            }
        } catch (RuntimeException | AssertionError e) {
            throw new AssertionError(fault + " with " + cluster.strategy + " over " + cluster.provider + ": "
                    + e.getMessage() + "\n" + cluster.report(), e);
        }
        System.out.printf("%d %s %s %s, ms: %s, in all %d%n", faults, cluster.strategy, cluster.provider, fault,
                String.join(", ", lastTimes), TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin));
    }

    private void harm(Fault fault, ChaosCluster cluster, SplittableRandom random) {
        int rank = switch (fault) {
            case FIRST_KILLED -> 0;
            case WORKER_KILLED -> 1 + random.nextInt(ChaosCluster.WORKERS - 1);
            case SERVER_KILLED -> ChaosCluster.WORKERS + random.nextInt(cluster.servers);
            default -> random.nextInt(cluster.world());
        };
        ChaosProcess victim = cluster.members.get(rank);
        List<ChaosProcess> others = cluster.workers().stream().filter(each -> each != victim).toList();
        cluster.workers().forEach(each -> each.watch(System.nanoTime()));
        long beganNs = begin(fault, cluster, rank);
        cluster.workers().forEach(each -> each.watch(beganNs));
        Outcome outcome = fault.outcome(cluster.strategy, rank >= ChaosCluster.WORKERS);
        switch (outcome) {
            case ERROR -> {
                note(cluster, fault, "error", errors(cluster, fault, others, rank, beganNs));
                end(fault, cluster, rank);
                restart(cluster, fault);
            }
            case UNDISTURBED -> {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(BRIEF_MS));
                long healedNs = end(fault, cluster, rank);
                cluster.awaitTogether(healedNs);
                note(cluster, fault, "progress", cluster.workers().stream()
                        .mapToLong(each -> each.firstStepSinceNs() - healedNs).max().orElseThrow());
                assertThat(cluster.members).allMatch(ChaosProcess::isAlive);
            }
            case CONTINUES -> {
                long untilNs = beganNs + (fault == Fault.STOPPED || fault == Fault.CUT
                        ? TimeUnit.MILLISECONDS.toNanos(STOP_MS) : 0);
                cluster.await("progress of the others", () -> System.nanoTime() > untilNs
                        && others.stream().allMatch(each -> each.stepsSince() > PROGRESS
                        && each.world() < cluster.world()));
                note(cluster, fault, "pause", others.stream().mapToLong(ChaosProcess::pauseNs).max().orElseThrow());
                bringBack(fault, cluster, rank);
            }
            case WAITS -> {
                if (fault == Fault.STOPPED || fault == Fault.CUT) {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(STOP_MS));
                }
                bringBack(fault, cluster, rank);
            }
        }
    }

    private long begin(Fault fault, ChaosCluster cluster, int rank) {
        return switch (fault) {
            case STOPPED, STOPPED_BRIEFLY -> cluster.members.get(rank).signal("STOP");
            case CUT, CUT_BRIEFLY -> {
                long now = System.nanoTime();
                cluster.network.cut(rank);
                yield now;
            }
            default -> cluster.members.get(rank).signal("KILL");
        };
    }

    private static long end(Fault fault, ChaosCluster cluster, int rank) {
        long now = System.nanoTime();
        switch (fault) {
            case STOPPED, STOPPED_BRIEFLY -> cluster.members.get(rank).signal("CONT");
            case CUT, CUT_BRIEFLY -> cluster.network.heal(rank);
            default -> { }
        }
        return now;
    }

    /** Waits until all others have ended with an error that names the victim; returns the time to the last error. */
    private static long errors(ChaosCluster cluster, Fault fault, List<ChaosProcess> others, int rank, long beganNs) {
        cluster.await("the end of all others", () -> others.stream().allMatch(ChaosProcess::hasEnded));
        for (ChaosProcess each : others) {
            assertThat(each.failure()).as("the error of %s", each.name).isNotNull();
            assertThat(each.failure().type()).isEqualTo("PeerLostException");
            assertThat(each.failure().rank()).as("the rank that %s blames: %s", each.name, each.failure().message())
                    .isEqualTo(rank);
        }
        return others.stream().mapToLong(each -> each.failure().timeNs() - beganNs).max().orElseThrow();
    }

    /** Starts a cluster anew whose members end together; a ring resumes from its last checkpoint. */
    private void restart(ChaosCluster cluster, Fault fault) {
        long saved = cluster.workers().getFirst().saved();
        long nowNs = System.nanoTime();
        cluster.start();
        cluster.awaitTogether(nowNs);
        note(cluster, fault, "return", System.nanoTime() - nowNs);
        if (cluster.strategy.equals("ring")) {
            assertThat(cluster.workers().getFirst().firstStep()).as("the first step after the checkpoint")
                    .isGreaterThan(saved);
        }
    }

    /** Ends the fault; if the victim ends by it, a replacement joins. */
    private void bringBack(Fault fault, ChaosCluster cluster, int rank) {
        ChaosProcess victim = cluster.members.get(rank);
        long healedNs = end(fault, cluster, rank);
        if (victim.isAlive() && (fault == Fault.STOPPED || fault == Fault.CUT)) {
            // A rank of a ring ends when it learns that the others continue without it; other members return.
            long deadlineNs = System.nanoTime() + RETURN_NS;
            cluster.await("the return or the end of " + victim.name, () -> victim.hasEnded()
                    || cluster.workers().stream().allMatch(each -> each.world() == cluster.world())
                    || System.nanoTime() > deadlineNs);
        }
        if (!victim.isAlive() || fault == Fault.WORKER_KILLED || fault == Fault.FIRST_KILLED
                || fault == Fault.SERVER_KILLED) {
            cluster.replace(rank);
        }
        cluster.awaitTogether(healedNs);
        note(cluster, fault, "return", System.nanoTime() - healedNs);
    }

    private void killCoordinator(ChaosCluster cluster) {
        long nowNs = cluster.coordinator.signal("KILL");
        cluster.workers().forEach(each -> each.watch(nowNs));
        cluster.await("progress without the coordinator", () -> cluster.workers().stream()
                .allMatch(each -> each.stepsSince() > PROGRESS));
        note(cluster, Fault.COORDINATOR_KILLED, "pause", cluster.workers().stream().mapToLong(ChaosProcess::pauseNs)
                .max().orElseThrow());
        restart(cluster, Fault.COORDINATOR_KILLED);
    }

    private void killBeforeStart(ChaosCluster cluster, SplittableRandom random) {
        cluster.start();
        int rank = random.nextInt(ChaosCluster.WORKERS);
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random.nextLong(MAX_START_MS)));
        long nowNs = cluster.members.get(rank).signal("KILL");
        if (Fault.isFailStop(cluster.strategy) && cluster.members.get(rank).lastStep() > 0) {
            restart(cluster, Fault.KILLED_BEFORE_START); // It had begun already: the group ends.
            return;
        }
        List<ChaosProcess> others = cluster.workers().stream().filter(each -> each != cluster.members.get(rank))
                .toList();
        cluster.replace(rank);
        if (Fault.isFailStop(cluster.strategy)) {
            // A group that was complete ends; its replaced rank would wait for a coordinator until its timeout.
            cluster.await("the start, or the end of a group that was complete", () ->
                    cluster.workers().stream().allMatch(each -> each.lastStep() > 0)
                    || others.stream().allMatch(ChaosProcess::hasEnded));
            if (others.stream().allMatch(ChaosProcess::hasEnded)) {
                note(cluster, Fault.KILLED_BEFORE_START, "error", others.stream()
                        .mapToLong(each -> each.failure().timeNs() - nowNs).max().orElseThrow());
                restart(cluster, Fault.KILLED_BEFORE_START);
                return;
            }
        }
        cluster.awaitTogether(nowNs);
        note(cluster, Fault.KILLED_BEFORE_START, "return", System.nanoTime() - nowNs);
    }

    private void note(ChaosCluster cluster, Fault fault, String what, long ns) {
        lastTimes.add(what + ' ' + TimeUnit.NANOSECONDS.toMillis(ns));
        measured.computeIfAbsent(String.format("%-8s %-6s %-20s %-8s", cluster.strategy, cluster.provider, fault, what),
                _ -> new ArrayList<>()).add(TimeUnit.NANOSECONDS.toMillis(ns));
    }

    int faults() {
        return faults;
    }

    /** Returns the times in ms: number, median, maximum. */
    String table() {
        StringBuilder text = new StringBuilder();
        measured.forEach((key, times) -> {
            List<Long> sorted = times.stream().sorted().toList();
            text.append(String.format("%s %4d %6d %6d%n", key, sorted.size(), sorted.get(sorted.size() / 2),
                    sorted.getLast()));
        });
        return text.toString();
    }
}
