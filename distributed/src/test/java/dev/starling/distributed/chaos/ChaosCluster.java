package dev.starling.distributed.chaos;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.network.HostNetwork;
import dev.starling.transport.Secret;
import dev.starling.transport.aeron.AeronDriver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Objects;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A coordinator and members in processes of their own, on one host or each on a host of its own. */
final class ChaosCluster implements AutoCloseable {
    static final int WORKERS = 3;
    static final long SILENCE_MS = 2_500;
    /** How long a launch gives its processes to end. */
    static final Duration GRACE = Duration.ofSeconds(1);

    private static final long WAIT_NS = 60_000_000_000L;

    final String strategy;
    final String provider;
    final int servers;
    final HostNetwork network;
    final List<ChaosProcess> members = new ArrayList<>();
    ChaosProcess coordinator;

    /** Whether a member has taken the place of the coordinator. */
    private boolean replaced;
    private final int coordinatorHost;
    private final Path directory;
    private final Path data;
    private String secret;

    /**
     * Creates a cluster of no processes yet; without a network all are on this host.
     *
     * @param withFirst whether the coordinator is on the host of the first worker, and not on one of its own
     */
    ChaosCluster(String strategy, String provider, HostNetwork network, boolean withFirst) {
        this.strategy = strategy;
        this.provider = provider;
        this.network = network;
        servers = strategy.startsWith("ps") ? 1 : 0;
        coordinatorHost = withFirst ? 0 : WORKERS + servers;
        try {
            Path memory = Path.of("/dev/shm");
            directory = Files.isWritable(memory) ? Files.createTempDirectory(memory, "starling-chaos")
                    : Files.createTempDirectory("starling-chaos");
            data = Files.createTempDirectory("starling-chaos-data");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    int world() {
        return WORKERS + servers;
    }

    /** Returns the name of a worker's directory of checkpoints. */
    static String checkpoints(int rank) {
        return "checkpoints-" + rank;
    }

    /** Returns the files of a worker's checkpoints. */
    List<String> saved(int rank) {
        Path own = data.resolve(checkpoints(rank));
        try (Stream<Path> files = Files.isDirectory(own) ? Files.list(own) : Stream.empty()) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Returns the workers, without servers. */
    List<ChaosProcess> workers() {
        return members.subList(0, WORKERS);
    }

    /** Ends what runs, and starts all processes; does not wait for them. */
    void start() {
        end();
        replaced = false;
        secret = Secret.random().toHex();
        coordinator = process("coordinator", coordinatorHost, List.of("coordinate=true"));
        await("the coordinator", () -> coordinator.address() != null);
        for (int rank = 0; rank < world(); rank++) {
            members.add(member(rank));
        }
    }

    /** Starts another process in place of one that has ended. */
    void replace(int rank) {
        members.get(rank).end();
        members.set(rank, member(rank));
    }

    /** Ends what runs, and starts a launcher, which starts coordinator and members; does not wait for them. */
    ChaosProcess launch() {
        end();
        coordinator = process("launcher", 0, List.of("launch=true"));
        return coordinator;
    }

    /** Disconnects the host of the coordinator, or connects it again. */
    void cutCoordinator(boolean cut) {
        if (cut) {
            network.cut(coordinatorHost);
        } else {
            network.heal(coordinatorHost);
        }
    }

    /** A member has taken the place of the coordinator, or does so now. */
    void onCoordinatorReplaced() {
        replaced = true;
    }

    /**
     * Returns the member whose process has the coordinator, or shares its host; -1 if that has a process, or a host, of
     * its own.
     */
    int holder() {
        int holder = network != null && coordinatorHost == 0 && !replaced ? 0 : -1;
        for (int i = 0; i < members.size() && replaced; i++) {
            boolean opened = members.get(i).isAlive() && members.get(i).takeoverNs() >= 0;
            holder = opened && (holder < 0 || members.get(i).takeoverNs() > members.get(holder).takeoverNs()) ? i
                    : holder;
        }
        return holder;
    }

    /** Creates a member. A group that re-forms is found by its members, too. */
    private ChaosProcess member(int rank) {
        Stream<ChaosProcess> known = Fault.isFailStop(strategy) ? Stream.of(coordinator)
                : Stream.concat(Stream.of(coordinator), members.stream().filter(ChaosProcess::isAlive));
        return process("rank " + rank, rank, List.of("rank=" + rank, "coordinator=" + known
                .map(ChaosProcess::address).filter(Objects::nonNull).collect(Collectors.joining(","))));
    }

    private ChaosProcess process(String name, int host, List<String> own) {
        List<String> arguments = new ArrayList<>(own);
        arguments.addAll(List.of("strategy=" + strategy, "provider=" + provider, "secret=" + secret,
                "host=" + (network == null ? "127.0.0.1" : HostNetwork.address(host)), "silence=" + SILENCE_MS,
                "directory=" + directory, "data=" + data, "workers=" + WORKERS, "servers=" + servers));
        return ChaosProcess.start(name, network == null ? List.of() : network.on(host), arguments);
    }

    /** Waits until all workers have taken a few steps together since a time. */
    void awaitTogether(long sinceNs) {
        workers().forEach(each -> each.watch(sinceNs));
        await("steps of all workers", () -> workers().stream()
                .allMatch(each -> each.stepsSince() > 3 && each.world() == world()));
    }

    /** Waits for a condition; a cluster that does not reach it in time hangs. */
    void await(String what, BooleanSupplier condition) {
        long begin = System.nanoTime();
        while (!condition.getAsBoolean()) {
            if (System.nanoTime() - begin > WAIT_NS) {
                throw new AssertionError("waited 60 s for " + what + "\n" + report());
            }
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
            }
        }
    }

    String report() {
        return Stream.concat(Stream.of(coordinator), members.stream()).map(ChaosProcess::report)
                .collect(Collectors.joining("\n"));
    }

    private void end() {
        members.forEach(ChaosProcess::end);
        members.clear();
        if (coordinator != null) {
            coordinator.end();
        }
    }

    /** Returns whether no file of the transport is left but what the next process sweeps away. */
    boolean hasNothingLeft() {
        AeronDriver.sweep(directory);
        try (Stream<Path> left = Files.list(directory)) {
            return left.findAny().isEmpty();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /** Ends all processes. */
    @Override
    public void close() {
        end();
        try {
            assertThat(hasNothingLeft()).as("no files left by %s over %s", strategy, provider).isTrue();
        } finally {
            delete(directory);
            delete(data);
        }
    }

    private static void delete(Path top) {
        try (Stream<Path> all = Files.walk(top)) {
            for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(each);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
