package dev.starling.distributed;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Wire;
import dev.starling.transport.spi.WireProvider.Availability;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.locks.LockSupport;
import java.util.function.UnaryOperator;

/** A group in threads of this JVM, for tests. */
public final class Cluster {
    private static final long MAX_S = 60;

    private final TransportConfig transport;
    private final int world;
    private final Coordinator.OnLoss onLoss;
    private int servers;
    private int maxMesh = GroupConfig.DEFAULT_MAX_MESH;
    private List<String> hosts = List.of();
    private UnaryOperator<Wire> around = UnaryOperator.identity();
    private Duration timeout = Duration.ofSeconds(20);

    /** Creates a cluster over a transport. */
    public Cluster(TransportConfig transport, int world, Coordinator.OnLoss onLoss) {
        this.transport = transport;
        this.world = world;
        this.onLoss = onLoss;
    }

    /** Creates a cluster over the local transport. */
    public static Cluster local(int world) {
        return new Cluster(TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(10)), world,
                Coordinator.OnLoss.END);
    }

    /**
     * Returns the configuration of a transport, with a new secret; UCX uses TCP. Skips the test if it is unavailable.
     *
     * @param provider local, aeron or ucx
     */
    public static TransportConfig transport(String provider) {
        Availability availability = Transport.providers().get(provider).availability();
        assumeTrue(availability instanceof Availability.Ready, () -> provider + " is unavailable: " + availability);
        TransportConfig config = TransportConfig.of(provider, Secret.random()).livenessTimeout(Duration.ofSeconds(5));
        return provider.equals("ucx") ? config.option("tls", "tcp") : config;
    }

    /** Makes the last ranks servers. */
    public Cluster servers(int count) {
        servers = count;
        return this;
    }

    /** Makes ranks pretend to be on hosts of these names. */
    public Cluster hosts(String... names) {
        hosts = List.of(names);
        return this;
    }

    /** Sets the number of ranks up to which all are connected to each other. */
    public Cluster maxMesh(int ranks) {
        maxMesh = ranks;
        return this;
    }

    /** Wraps the wire of each rank. */
    public Cluster around(UnaryOperator<Wire> wires) {
        around = wires;
        return this;
    }

    /** Sets the timeout of ranks; default 20 s. */
    public Cluster timeout(Duration atMost) {
        timeout = atMost;
        return this;
    }

    /** The program of a rank. */
    public interface Rank<T> {
        /** Runs the program. */
        T run(Membership group) throws Exception;
    }

    /** Runs a program on all ranks; returns their results, or throws the failure of a rank. */
    public <T> List<T> run(Rank<T> program) {
        try (CoordinatorThread coordinator = CoordinatorThread.start(Coordinator.open(transport, world, onLoss, 1,
                Duration.ofSeconds(30)))) {
            List<FutureTask<T>> ranks = new ArrayList<>();
            for (int rank = 0; rank < world; rank++) {
                GroupConfig here = GroupConfig.of(transport, coordinator.address()).place(rank, world - servers)
                        .timeout(timeout).maxMesh(maxMesh);
                GroupConfig config = hosts.isEmpty() ? here : here.host(hosts.get(rank));
                Callable<T> body = () -> {
                    Wire wire = around.apply(Transport.providers().get(transport.provider()).open(transport.wire()));
                    try (Membership group = Membership.join(Transport.over(wire, transport), config, true,
                            _ -> { })) {
                        return program.run(group);
                    }
                };
                FutureTask<T> task = new FutureTask<>(body);
                ranks.add(task);
                Thread.ofPlatform().daemon().name("rank-" + rank).start(task);
            }
            List<T> results = new ArrayList<>();
            for (FutureTask<T> rank : ranks) {
                results.add(rank.get(MAX_S, TimeUnit.SECONDS));
            }
            return results;
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException r ? r : new IllegalStateException(e.getCause());
        } catch (InterruptedException | TimeoutException e) {
            throw new IllegalStateException("a rank hangs", e);
        }
    }

    /** Waits until groups and servers of earlier tests have ended; some of them may still wait for a lost member. */
    public static void awaitEarlier() {
        long begin = System.nanoTime();
        while (Thread.getAllStackTraces().keySet().stream().anyMatch(t -> t.getName().startsWith("starling-group")
                || t.getName().startsWith("starling-ps")) && System.nanoTime() - begin < 60_000_000_000L) {
            LockSupport.parkNanos(20_000_000);
        }
    }
}
