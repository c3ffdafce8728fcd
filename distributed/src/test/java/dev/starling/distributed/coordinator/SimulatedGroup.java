package dev.starling.distributed.coordinator;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.Member;
import dev.starling.distributed.View;
import dev.starling.distributed.group.Membership;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Fault;
import dev.starling.transport.simulated.FaultPlan;
import dev.starling.transport.simulated.Simulation;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** A simulated coordinator and the members of its group, which re-form it whenever an epoch ends, for a while. */
final class SimulatedGroup {
    static final Duration SILENCE = Duration.ofMillis(100);
    /** When members leave. */
    static final Duration END = Duration.ofSeconds(2);
    static final String COORDINATOR = "coordinator";
    private static final Duration TIMEOUT = Duration.ofSeconds(5);

    private final CoordinatorConfig rules;
    private final Simulation simulation;
    private final Map<String, Life> lives = new TreeMap<>();
    private Duration coordinatorAt = Duration.ZERO;

    /** What one process has seen. */
    static final class Life {
        /** By epoch, its members' names. */
        final Map<Long, List<String>> epochs = new TreeMap<>();
        /** By epoch, when this process was in it first. */
        final Map<Long, Duration> begins = new TreeMap<>();
        /** Whether it reached a quorum when it ended. */
        boolean hasQuorum;
        RuntimeException failure;
        Duration failed;

        List<String> lastMembers() {
            return epochs.values().stream().reduce((_, last) -> last).orElse(List.of());
        }

        long lastEpoch() {
            return epochs.keySet().stream().reduce((_, last) -> last).orElse(0L);
        }
    }

    private SimulatedGroup(CoordinatorConfig rules, FaultPlan plan) {
        this.rules = rules.joinTimeout(TIMEOUT);
        simulation = Simulation.of(plan);
    }

    /** Returns what each process has seen in a run in which these faults happen. */
    static Map<String, Life> run(CoordinatorConfig rules, Fault... faults) {
        return of(rules, faults).run();
    }

    /** Begins the description of a run on a good network. */
    static SimulatedGroup of(CoordinatorConfig rules, Fault... faults) {
        return over(Conditions.GOOD, rules, faults);
    }

    /** Begins the description of a run. */
    static SimulatedGroup over(Conditions conditions, CoordinatorConfig rules, Fault... faults) {
        return new SimulatedGroup(rules, new FaultPlan(1, names(rules.world()), TIMEOUT, Set.of(FaultPlan.Kind.CUT),
                conditions, List.of(faults)));
    }

    /** Starts the coordinator again, without any state. */
    SimulatedGroup coordinatorAt(Duration at) {
        simulation.at(at, this::startCoordinator);
        return this;
    }

    /** Starts the coordinator after the members. */
    SimulatedGroup lateCoordinator(Duration at) {
        coordinatorAt = at;
        return this;
    }

    /** Starts a process that joins a group which exists, by an address. */
    SimulatedGroup newcomerAt(Duration at, String name, String address) {
        start(name, GroupConfig.of(null, address).host(name).existing(true), at);
        return this;
    }

    /** Starts a process that joins by an address. */
    SimulatedGroup processAt(Duration at, String name, String address) {
        simulation.at(at, () -> start(name, GroupConfig.of(null, address).host(name)));
        return this;
    }

    /** Returns what each process has seen. */
    Map<String, Life> run() {
        try (simulation) {
            simulation.at(coordinatorAt, this::startCoordinator);
            for (int rank = 0; rank < rules.world(); rank++) {
                start("rank" + rank, GroupConfig.of(null, COORDINATOR).preferredRank(rank).host("rank" + rank));
            }
            simulation.run(TIMEOUT.multipliedBy(3));
        }
        return lives;
    }

    /** Returns a fault that cuts some processes off from all others. */
    static Fault cut(Duration at, Duration length, int world, String... side) {
        Set<String> rest = new TreeSet<>(names(world));
        rest.removeAll(Set.of(side));
        return new Fault.Cut(at, length, Set.of(side), rest, true);
    }

    private static List<String> names(int world) {
        return Stream.concat(Stream.of(COORDINATOR), IntStream.range(0, world).mapToObj(rank -> "rank" + rank))
                .toList();
    }

    static TransportConfig transport() {
        return TransportConfig.of("simulated", Secret.ofText("a secret of simulated processes"))
                .livenessTimeout(SILENCE);
    }

    private void startCoordinator() {
        simulation.start(COORDINATOR, () -> {
            try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire(COORDINATOR), transport()),
                    rules)) {
                coordinator.run(END.plus(TIMEOUT));
            } catch (TransportException e) {
                if (e.problem() != TransportException.Problem.TIMED_OUT) {
                    throw e;
                }
            }
        });
    }

    private void start(String name, GroupConfig config) {
        start(name, config, Duration.ZERO);
    }

    private void start(String name, GroupConfig config, Duration after) {
        Life life = new Life();
        lives.put(name, life);
        simulation.start(name, () -> {
            simulation.sleep(after);
            live(name, config.joinTimeout(TIMEOUT).timeout(TIMEOUT), life);
        });
    }

    private void live(String name, GroupConfig config, Life life) {
        try (Membership group = Membership.join(Transport.over(simulation.wire(name), transport()), config, false,
                _ -> { })) {
            while (true) {
                View view = group.view();
                if (life.epochs.putIfAbsent(view.epoch(), view.members().stream().map(Member::host).toList()) == null) {
                    life.begins.put(view.epoch(), simulation.now());
                }
                long epoch = view.epoch();
                if (!group.await(() -> group.failure() != null || group.epoch() > epoch, END.minus(simulation.now()))) {
                    life.hasQuorum = group.hasQuorum();
                    return;
                }
                try {
                    group.reform(TIMEOUT);
                } finally {
                    life.hasQuorum = group.hasQuorum();
                }
            }
        } catch (DistributedException e) {
            life.failure = e;
            life.failed = simulation.now();
        }
    }
}
