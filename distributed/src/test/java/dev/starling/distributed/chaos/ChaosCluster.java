package dev.starling.distributed.chaos;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.network.HostNetwork;
import dev.starling.transport.Secret;
import dev.starling.transport.aeron.AeronDriver;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A coordinator and members in processes of their own, on one host or each on a host of its own. */
final class ChaosCluster implements AutoCloseable {
    static final int WORKERS = 3;
    static final long SILENCE_MS = 2_500;

    private static final long WAIT_NS = 60_000_000_000L;

    final String strategy;
    final String provider;
    final int servers;
    final HostNetwork network;
    final List<ChaosProcess> members = new ArrayList<>();
    ChaosProcess coordinator;

    private final Path directory;
    private final Path data;
    private String secret;

    /** Creates a cluster of no processes yet; without a network all are on this host. */
    ChaosCluster(String strategy, String provider, HostNetwork network) {
        this.strategy = strategy;
        this.provider = provider;
        this.network = network;
        servers = strategy.startsWith("ps") ? 1 : 0;
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

    /** Returns the workers, without servers. */
    List<ChaosProcess> workers() {
        return members.subList(0, WORKERS);
    }

    /** Ends what runs, and starts all processes; does not wait for them. */
    void start() {
        end();
        secret = Secret.random().toHex();
        coordinator = process("coordinator", world(), List.of("coordinate=true"));
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

    private ChaosProcess member(int rank) {
        return process("rank " + rank, rank, List.of("rank=" + rank, "coordinator=" + coordinator.address()));
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

    /** Ends all processes; checks that nothing is left but what the next process sweeps away. */
    @Override
    public void close() {
        end();
        try {
            AeronDriver.sweep(directory);
            try (Stream<Path> left = Files.list(directory)) {
                assertThat(left).as("left behind by %s over %s", strategy, provider).isEmpty();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
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
