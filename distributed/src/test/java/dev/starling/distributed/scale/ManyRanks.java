package dev.starling.distributed.scale;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.ReduceOp;
import dev.starling.distributed.SymmetricBuffer;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Membership;
import dev.starling.tensor.DType;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.Simulation;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;

/**
 * Many simulated ranks in one JVM: they join, reduce around one ring and by host, lose some of their number, and admit
 * as many others. Each stage says how long it took, in virtual and in real time.
 */
final class ManyRanks {
    private static final System.Logger LOG = System.getLogger(ManyRanks.class.getName());
    private static final String BY_HOST = "all-reduce, 256 KiB, by host";
    private static final String RING = "all-reduce, 256 KiB, ring";
    private static final short ONE_AS_BF16 = 0x3f80;
    private static final Duration LIVENESS = Duration.ofSeconds(1);
    private static final Duration TIMEOUT = Duration.ofSeconds(60);
    private static final Duration LIMIT = Duration.ofMinutes(10);
    private static final Secret SECRET = Secret.ofText("a secret of simulated processes");

    private final int world;
    private final int perHost;
    private final int lost;
    private final Simulation simulation;
    private final List<Stage> stages = new ArrayList<>();
    private final Set<Long> epochs = new TreeSet<>();
    private int arrived;
    private int maxLinks;
    private long virtualNs;
    /** When the last rank began, and finished, the last all-reduce. */
    private long reduceBeginNs;
    private long reduceEndNs;
    private long realNs = System.nanoTime();

    /**
     * A stage that all ranks have finished.
     *
     * @param virtual time that it took in the simulation; of an all-reduce, without preparations
     * @param real time that it took on this machine
     * @param heapBytes that were used at its end, garbage included
     * @param residentBytes of this process at its end
     */
    record Stage(String name, Duration virtual, Duration real, long heapBytes, long residentBytes) { }

    private ManyRanks(int world, int perHost, int lost, Simulation simulation) {
        this.world = world;
        this.perHost = perHost;
        this.lost = lost;
        this.simulation = simulation;
    }

    /**
     * Runs a group.
     *
     * @param perHost ranks on each simulated host
     * @param lost how many ranks crash at the same time, and how many then join at the same time
     */
    static ManyRanks run(int world, int perHost, int lost) {
        try (Simulation simulation = Simulation.of(world).realTimeLimit(LIMIT).mapsMemory(perHost > 1)
                .operationTime(Duration.ofNanos(1))) {
            ManyRanks ranks = new ManyRanks(world, perHost, lost, simulation);
            ranks.start();
            simulation.run(LIMIT);
            return ranks;
        }
    }

    List<Stage> stages() {
        return stages;
    }

    /** Returns the numbers of the epochs that the ranks were in. */
    Set<Long> epochs() {
        return epochs;
    }

    /** Returns the largest number of connections that a rank had to others when it joined. */
    int maxLinks() {
        return maxLinks;
    }

    private void start() {
        simulation.start("coordinator", () -> {
            try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), config()),
                    world, Coordinator.OnLoss.REFORM, 1, TIMEOUT)) {
                coordinator.run(LIMIT);
            } catch (TransportException e) {
                throw new AssertionError("the members did not leave", e);
            }
        });
        for (int rank = 0; rank < world; rank++) {
            int number = rank;
            simulation.start("rank" + rank, () -> takePart(number));
        }
    }

    private Membership join(int number) {
        String name = "rank" + number;
        GroupConfig membership = GroupConfig.of(null, "coordinator").preferredRank(number)
                .host("host" + number / perHost).joinTimeout(TIMEOUT).timeout(TIMEOUT);
        return Membership.join(Transport.over(simulation.wire(name), config()), membership, false, _ -> { });
    }

    private static TransportConfig config() {
        return TransportConfig.of("simulated", SECRET).livenessTimeout(LIVENESS);
    }

    private void takePart(int number) {
        try (Membership group = join(number)) {
            maxLinks = Math.max(maxLinks, (int) group.view().members().stream()
                    .filter(member -> group.endpoint(member.id()) != null).count());
            group.collectives().barrier().await(TIMEOUT);
            done(group, "join", world);
            reduce(group, 64, DType.I32);
            done(group, "all-reduce, 256 B", world);
            reduce(group, 4 << 10, DType.I32);
            done(group, "all-reduce, 16 KiB", world);
            reduce(group, 64 << 10, DType.I32);
            done(group, perHost > 1 ? BY_HOST : "all-reduce, 256 KiB, halves", world);
            // Sums of 16-bit floats travel around all ranks.
            reduce(group, 128 << 10, DType.BF16);
            done(group, RING, world);
            if (lost > 0) {
                lose(group, number);
            }
        }
    }

    private void lose(Membership group, int number) {
        int distance = world / lost;
        // Those that crash are spread over the group.
        if (number % distance == 1 % distance && number / distance < lost) {
            simulation.plan(new Fault.Crash(simulation.now().plus(LIVENESS.dividedBy(10)), 0, "rank" + number));
            group.await(() -> false, TIMEOUT);
            return;
        }
        awaitWorld(group, world - lost);
        done(group, "loss of " + lost, world - lost);
        awaitWorld(group, world);
        reduce(group, 64, DType.I32);
        done(group, "join of " + lost, world);
    }

    private void replace(int number) {
        try (Membership group = join(number)) {
            awaitWorld(group, world);
            reduce(group, 64, DType.I32);
            done(group, "join of " + lost, world);
        }
    }

    /** Waits for an epoch with a number of members, and a barrier among them. */
    private void awaitWorld(Membership group, int members) {
        while (true) {
            try {
                if (group.world() == members && group.failure() == null) {
                    group.collectives().barrier().await(TIMEOUT);
                    return;
                }
                group.await(() -> group.failure() != null, TIMEOUT);
                group.reform(TIMEOUT);
                epochs.add(group.epoch());
            } catch (DistributedException e) {
                if (group.isEnded()) {
                    throw e;
                }
            }
        }
    }

    /** Adds up the ranks, and verifies the sum. */
    private void reduce(Membership group, int count, DType type) {
        try (SymmetricBuffer buffer = group.collectives().symmetric((long) type.bytes() * count)) {
            MemorySegment memory = buffer.memory();
            int ranks = group.world();
            for (int i = 0; i < count && type == DType.I32; i++) {
                memory.setAtIndex(ValueLayout.JAVA_INT, i, group.rank() + i);
            }
            for (int i = 0; i < count && type == DType.BF16; i++) {
                memory.setAtIndex(ValueLayout.JAVA_SHORT, i, group.rank() == i % ranks ? ONE_AS_BF16 : 0);
            }
            group.collectives().barrier().await(TIMEOUT);
            reduceBeginNs = Math.max(reduceBeginNs, simulation.nanoTime());
            group.collectives().allReduce(buffer, 0, count, type, ReduceOp.SUM).await(TIMEOUT);
            reduceEndNs = Math.max(reduceEndNs, simulation.nanoTime());
            int sum = ranks * (ranks - 1) / 2;
            for (int i = 0; i < count; i++) {
                int expected = type == DType.BF16 ? ONE_AS_BF16 : sum + ranks * i;
                int result = type == DType.BF16 ? memory.getAtIndex(ValueLayout.JAVA_SHORT, i)
                        : memory.getAtIndex(ValueLayout.JAVA_INT, i);
                if (result != expected) {
                    throw new AssertionError("[" + i + "] of " + count + " " + type + " on rank " + group.rank() + ": "
                            + result + " instead of " + expected);
                }
            }
        }
    }

    /** Ends a stage when all ranks have called this. */
    private void done(Membership group, String name, int ranks) {
        epochs.add(group.epoch());
        if (++arrived < ranks) {
            group.await(() -> stages.stream().anyMatch(stage -> stage.name.equals(name)), TIMEOUT);
            return;
        }
        arrived = 0;
        Runtime jvm = Runtime.getRuntime();
        Stage stage = new Stage(name, Duration.ofNanos(name.startsWith("all") ? reduceEndNs - reduceBeginNs
                : simulation.nanoTime() - virtualNs),
                Duration.ofNanos(System.nanoTime() - realNs), jvm.totalMemory() - jvm.freeMemory(), residentBytes());
        virtualNs = simulation.nanoTime();
        realNs = System.nanoTime();
        stages.add(stage);
        LOG.log(System.Logger.Level.INFO, "{0} ranks: {1}", world, stage);
        if (name.startsWith("loss")) {
            for (int i = 0; i < lost; i++) {
                int joins = world + i;
                simulation.start("rank" + joins, () -> replace(joins));
            }
        }
    }

    private static long residentBytes() {
        try {
            return Long.parseLong(Files.readString(Path.of("/proc/self/statm")).split(" ")[1]) * 4096;
        } catch (IOException e) {
            return -1;
        }
    }

    /** Prints what a run took: {@code ranks, ranks on a host, losses}. */
    public static void main(String[] arguments) {
        int[] numbers = Arrays.stream(arguments).mapToInt(Integer::parseInt).toArray();
        ManyRanks run = run(numbers[0], numbers[1], numbers[2]);
        run.stages.forEach(stage -> System.out.printf("%5d | %-28s | virtual %9.2f ms | real %7.2f s | heap %5d MB |"
                + " resident %5d MB%n", numbers[0], stage.name, stage.virtual.toNanos() / 1e6,
                stage.real.toMillis() / 1e3, stage.heapBytes >> 20, stage.residentBytes >> 20));
        System.out.println("epochs " + run.epochs + ", connections of a rank: at most " + run.maxLinks);
    }
}
