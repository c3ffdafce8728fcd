package dev.starling.distributed.chaos;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.chaos.Fault.Outcome;
import java.lang.management.ManagementFactory;
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
    /** A loss costs the others at most this, whatever else is lost with it. */
    private static final long MAX_PAUSE_MS = 2 * ChaosCluster.SILENCE_MS;
    /** A minority notices the loss after one liveness timeout, and waits two others for the majority. */
    private static final long MAX_MINORITY_MS = 3 * ChaosCluster.SILENCE_MS + 1_000;
    private static final long MAX_RETURN_MS = 5_000;
    /** The operating system closes the connections of a killed process, so that others need not wait for a timeout. */
    private static final long MAX_ERROR_MS = 250;
    private static final long MAX_LAUNCH_END_MS = ChaosCluster.GRACE.toMillis() + 1_000;

    private final double slack;
    private final Map<String, List<Long>> measured = new TreeMap<>();
    /** What was measured of the last fault. */
    private final List<String> lastTimes = new ArrayList<>();
    /** What took longer than it may, of the last fault. */
    private final List<String> late = new ArrayList<>();
    private final List<Double> loads = new ArrayList<>();
    private int faults;

    /** Creates a series of faults; on a busy machine limits of time are {@code slack} times as long. */
    Chaos(double slack) {
        this.slack = slack;
    }

    /** Lets one fault happen in a cluster all of whose members train, and brings it back to that state. */
    void happen(Fault fault, ChaosCluster cluster, SplittableRandom random) {
        faults++;
        lastTimes.clear();
        late.clear();
        loads.add(ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage());
        long begin = System.nanoTime();
        try {
            switch (fault) {
                case COORDINATOR_KILLED, COORDINATOR_CUT -> loseCoordinator(fault, cluster, random);
                case LAUNCHER_KILLED -> killLauncher(cluster);
                case KILLED_BEFORE_START -> killBeforeStart(cluster, random);
                default -> harm(fault, cluster, victim(fault, cluster, random));
            }
            requireNoRepeatedStep(cluster);
            assertThat(late).as("limits of time").isEmpty();
        } catch (RuntimeException | AssertionError e) {
            throw new AssertionError(fault + " with " + cluster.strategy + " over " + cluster.provider + ": "
                    + e.getMessage() + "\n" + cluster.report(), e);
        }
        System.out.printf("%d %s %s %s, ms: %s, in all %d, load %.1f%n", faults, cluster.strategy, cluster.provider,
                fault, String.join(", ", lastTimes), TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - begin),
                loads.getLast());
    }

    private static int victim(Fault fault, ChaosCluster cluster, SplittableRandom random) {
        return switch (fault) {
            case FIRST_KILLED -> 0;
            case WORKER_KILLED -> 1 + random.nextInt(ChaosCluster.WORKERS - 1);
            case SERVER_KILLED -> ChaosCluster.WORKERS + random.nextInt(cluster.servers);
            case MINORITY_CUT -> random.nextInt(ChaosCluster.WORKERS);
            default -> random.nextInt(cluster.world());
        };
    }

    /** The ranks of a ring take each step together: none takes a step again that it has finished. */
    private static void requireNoRepeatedStep(ChaosCluster cluster) {
        if (cluster.strategy.equals("elastic")) {
            cluster.workers().forEach(each -> assertThat(each.repeated()).as(each.name).isEmpty());
        }
    }

    private void harm(Fault fault, ChaosCluster cluster, int rank) {
        ChaosProcess victim = cluster.members.get(rank);
        List<ChaosProcess> others = cluster.workers().stream().filter(each -> each != victim).toList();
        cluster.workers().forEach(each -> each.watch(System.nanoTime()));
        long beganNs = begin(fault, cluster, rank);
        cluster.workers().forEach(each -> each.watch(beganNs));
        Outcome outcome = fault.outcome(cluster.strategy, rank >= ChaosCluster.WORKERS);
        switch (outcome) {
            case ERROR -> {
                long ns = errors(cluster, others, rank, beganNs);
                if (fault.passes()) {
                    note(cluster, fault, "error", ns);
                } else {
                    require(cluster, fault, "error", ns, MAX_ERROR_MS);
                }
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
                // Connections that no step waits for are back later; a cut before that would prolong their silence.
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(BRIEF_MS));
            }
            case CONTINUES -> {
                long untilNs = beganNs + (fault.passes() ? TimeUnit.MILLISECONDS.toNanos(STOP_MS) : 0);
                cluster.await("progress of the others", () -> System.nanoTime() > untilNs
                        && others.stream().allMatch(each -> each.stepsSince() > PROGRESS
                        && each.world() > 0 && each.world() < cluster.world()));
                if (fault == Fault.MINORITY_CUT) {
                    awaitMinority(cluster, rank, beganNs);
                }
                require(cluster, fault, "pause", others.stream().mapToLong(ChaosProcess::pauseNs).max().orElseThrow(),
                        MAX_PAUSE_MS);
                bringBack(fault, cluster, rank);
            }
            case WAITS -> {
                if (fault.passes()) {
                    LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(STOP_MS));
                }
                bringBack(fault, cluster, rank);
            }
        }
    }

    private static long begin(Fault fault, ChaosCluster cluster, int rank) {
        return switch (fault) {
            case STOPPED, STOPPED_BRIEFLY -> cluster.members.get(rank).signal("STOP");
            case CUT, CUT_BRIEFLY, MINORITY_CUT -> {
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
            case CUT, CUT_BRIEFLY, MINORITY_CUT -> cluster.network.heal(rank);
            default -> { }
        }
        return now;
    }

    /** Waits until all others have ended with an error that names the victim; returns the time to the last error. */
    private static long errors(ChaosCluster cluster, List<ChaosProcess> others, int rank, long beganNs) {
        cluster.await("the end of all others", () -> others.stream().allMatch(ChaosProcess::hasEnded));
        for (ChaosProcess each : others) {
            assertThat(each.failure()).as("the error of %s", each.name).isNotNull();
            assertThat(each.failure().type()).isEqualTo("PeerLostException");
            assertThat(each.failure().rank()).as("the rank that %s blames: %s", each.name, each.failure().message())
                    .isEqualTo(rank);
        }
        return others.stream().mapToLong(each -> each.failure().timeNs() - beganNs).max().orElseThrow();
    }

    /**
     * Waits until a worker that is cut off has given up, or, if it trains alone meanwhile, for as long as that would
     * take. It saves no checkpoint in that time, once it knows that it is cut off.
     */
    private void awaitMinority(ChaosCluster cluster, int rank, long beganNs) {
        ChaosProcess victim = cluster.members.get(rank);
        // It notices by then, and a checkpoint that was being written is complete.
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(BRIEF_MS));
        List<String> saved = cluster.saved(rank);
        long alone = victim.lastStep();
        if (cluster.strategy.equals("gossip")) {
            long untilNs = beganNs + TimeUnit.MILLISECONDS.toNanos(MAX_MINORITY_MS);
            cluster.await("steps of a worker that is cut off", () -> System.nanoTime() > untilNs
                    && victim.lastStep() > alone + 2 * ChaosProgram.STEPS_PER_CHECKPOINT);
        } else {
            cluster.await("the end of the minority", victim::hasEnded);
            assertThat(victim.failure()).as("the error of the minority").isNotNull();
            assertThat(victim.failure().type()).isEqualTo("QuorumLostException");
            require(cluster, Fault.MINORITY_CUT, "error", victim.failure().timeNs() - beganNs, MAX_MINORITY_MS);
        }
        assertThat(cluster.saved(rank)).as("checkpoints of the minority").isEqualTo(saved);
    }

    /** Starts a cluster anew whose members end together; a ring resumes from its last checkpoint. */
    private void restart(ChaosCluster cluster, Fault fault) {
        restart(cluster, fault, cluster.workers().getFirst().saved());
    }

    private void restart(ChaosCluster cluster, Fault fault, long saved) {
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
        if (victim.isAlive() && (fault.passes() || fault == Fault.MINORITY_CUT)) {
            // A rank of a ring ends when it learns that the others continue without it; other members return.
            long deadlineNs = System.nanoTime() + RETURN_NS;
            cluster.await("the return or the end of " + victim.name, () -> victim.hasEnded()
                    || cluster.workers().stream().allMatch(each -> each.world() == cluster.world())
                    || System.nanoTime() > deadlineNs);
        }
        boolean replaced = !fault.passes() && fault != Fault.MINORITY_CUT || !victim.isAlive();
        if (replaced) {
            cluster.replace(rank);
        }
        cluster.awaitTogether(healedNs);
        require(cluster, fault, "return", System.nanoTime() - healedNs, MAX_RETURN_MS);
        if (replaced && rank < ChaosCluster.WORKERS) {
            require(cluster, fault, "join", cluster.members.get(rank).toFirstStepNs(), MAX_RETURN_MS);
        }
    }

    /** Where another member takes the place of the coordinator, a worker is killed and replaced after that. */
    private void loseCoordinator(Fault fault, ChaosCluster cluster, SplittableRandom random) {
        int holder = cluster.holder();
        if (holder >= 0) {
            harm(fault == Fault.COORDINATOR_CUT ? Fault.CUT : fault, cluster, holder);
            return;
        }
        cluster.workers().forEach(each -> each.watch(System.nanoTime()));
        long nowNs = System.nanoTime();
        if (fault == Fault.COORDINATOR_CUT) {
            cluster.cutCoordinator(true);
        } else {
            cluster.coordinator.signal("KILL");
        }
        cluster.workers().forEach(each -> each.watch(nowNs));
        long lastsNs = fault == Fault.COORDINATOR_CUT ? TimeUnit.MILLISECONDS.toNanos(STOP_MS) : 0;
        boolean failStop = Fault.isFailStop(cluster.strategy);
        cluster.await("progress without the coordinator", () -> System.nanoTime() - nowNs > lastsNs
                && cluster.workers().stream().allMatch(each -> each.stepsSince() > PROGRESS));
        if (!failStop) {
            cluster.onCoordinatorReplaced();
            cluster.await("a member that takes the place of the coordinator", () -> cluster.members.stream()
                    .anyMatch(each -> each.takeoverNs() >= nowNs));
            require(cluster, fault, "takeover", cluster.members.stream().mapToLong(ChaosProcess::takeoverNs)
                    .filter(ns -> ns >= nowNs).min().orElseThrow() - nowNs, MAX_PAUSE_MS);
        }
        require(cluster, fault, "pause", cluster.workers().stream().mapToLong(ChaosProcess::pauseNs).max()
                .orElseThrow(), MAX_PAUSE_MS);
        if (fault == Fault.COORDINATOR_CUT) {
            cluster.cutCoordinator(false);
        }
        if (failStop) {
            restart(cluster, fault);
        } else {
            harm(Fault.WORKER_KILLED, cluster, random.nextInt(ChaosCluster.WORKERS));
        }
    }

    /** Kills a launcher, and starts the cluster again without one. */
    private void killLauncher(ChaosCluster cluster) {
        ChaosProcess launcher = cluster.launch();
        // The launcher itself is one of the processes.
        cluster.await("steps of launched processes", () -> launcher.pids().size() > cluster.world()
                && launcher.stepsOfAll() > PROGRESS);
        long nowNs = launcher.signal("KILL");
        List<Long> pids = launcher.pids();
        cluster.await("the end of launched processes", () -> pids.stream().noneMatch(ChaosProcess::isRunning));
        require(cluster, Fault.LAUNCHER_KILLED, "end", System.nanoTime() - nowNs, MAX_LAUNCH_END_MS);
        cluster.await("the removal of the launch's files", cluster::hasNothingLeft);
        restart(cluster, Fault.LAUNCHER_KILLED, launcher.saved());
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

    /** Notes a time that must not exceed a limit. */
    private void require(ChaosCluster cluster, Fault fault, String what, long ns, long limitMs) {
        note(cluster, fault, what, ns);
        if (TimeUnit.NANOSECONDS.toMillis(ns) > slack * limitMs) {
            late.add(fault + ": " + what + " takes " + TimeUnit.NANOSECONDS.toMillis(ns) + " ms, more than " + limitMs);
        }
    }

    int faults() {
        return faults;
    }

    /** Returns the times in ms: number, median, maximum; and the machine's load. */
    String table() {
        List<Double> sortedLoads = loads.stream().sorted().toList();
        StringBuilder text = new StringBuilder(String.format("%d faults; load: median %.1f, max %.1f%n", faults,
                sortedLoads.get(sortedLoads.size() / 2), sortedLoads.getLast()));
        measured.forEach((key, times) -> {
            List<Long> sorted = times.stream().sorted().toList();
            text.append(String.format("%s %4d %6d %6d%n", key, sorted.size(), sorted.get(sorted.size() / 2),
                    sorted.getLast()));
        });
        return text.toString();
    }
}
