package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.GroupConfig;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.ParameterServer;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.worker.Client;
import dev.starling.distributed.ps.worker.WorkerWeights;
import dev.starling.nn.Parameter;
import dev.starling.nn.train.RunSettings;
import dev.starling.tensor.Tensor;
import dev.starling.transport.Secret;
import dev.starling.transport.Transport;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.TransportException;
import dev.starling.transport.simulated.Conditions;
import dev.starling.transport.simulated.Simulation;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A worker stops while it has more replies to receive than its link has room for. */
@Timeout(120)
class StoppedWorkerTest {
    private static final int SERVER = 2;
    private static final int LENGTH = 4096;
    private static final int WINDOW = 8 << 10;
    private static final int STEPS = 20;
    private static final Duration LIMIT = Duration.ofMinutes(1);
    private static final Duration PAUSE = Duration.ofMillis(50);
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.ofText("of 16 bytes, or more"))
            .livenessTimeout(Duration.ofSeconds(4));

    private final Plan plan = ServerDriver.plan(2, new Consistency.Asynchronous(), ServerDriver.PLAIN, LENGTH);
    private final Simulation simulation = Simulation.of(7);
    private final AtomicReference<Duration> stopped = new AtomicReference<>();
    private final AtomicReference<Duration> otherIsDone = new AtomicReference<>();
    private final AtomicBoolean returned = new AtomicBoolean();

    /** The first worker stops for less and for more than the liveness timeout. */
    @ParameterizedTest
    @ValueSource(ints = {2, 10})
    void theOtherWorkersAreAnswered(int seconds) {
        Duration stop = Duration.ofSeconds(seconds);
        try (simulation) {
            simulation.conditions(Conditions.GOOD.room(2_000_000_000L, WINDOW));
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), CONFIG),
                        3, Coordinator.OnLoss.REFORM, 1, LIMIT)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int i = 0; i <= SERVER; i++) {
                int rank = i;
                String name = "rank" + rank;
                simulation.start(name, () -> {
                    GroupConfig joining = GroupConfig.of(null, "coordinator").place(rank, SERVER).host(name);
                    try (Membership group = Membership.join(Transport.over(simulation.wire(name), CONFIG), joining,
                            false, _ -> { })) {
                        if (rank == SERVER) {
                            ParameterServer.serve(group, ServerConfig.inMemory().ringSize(0));
                        } else {
                            work(group, rank, stop);
                        }
                    }
                });
            }
            simulation.run(LIMIT);
        }
        assertThat(otherIsDone.get()).isLessThan(stopped.get().plus(Duration.ofSeconds(1)));
    }

    private void work(Membership group, int worker, Duration stop) {
        SecureRandom random = new SecureRandom();
        Client client = new Client(group, worker, plan, new RunSettings(Map.of()), false, random);
        try (Arena arena = Arena.ofConfined(); Parameter parameter = Parameter.buffer(Tensor.zeros(LENGTH));
                WorkerWeights weights = new WorkerWeights(List.of(parameter), plan, client.servers, random)) {
            MemorySegment ones = arena.allocate(4L * LENGTH, 64);
            for (int i = 0; i < LENGTH; i++) {
                ones.setAtIndex(ValueLayout.JAVA_FLOAT, i, 1);
            }
            client.open();
            client.ask(weights.requests(), Message.JOIN);
            client.await("for the weights");
            if (worker == 0) {
                client.ask(weights.setGradient(0, ones.address(), 1), Message.PUSH);
                for (int sent = WINDOW; sent < 8 * LENGTH; sent += WINDOW) {
                    // Sends the pushes for which the link had no room, and receives no reply.
                    simulation.sleep(Duration.ofMillis(1));
                    client.ask(List.of(), Message.PUSH);
                }
                stopped.set(simulation.now());
                simulation.sleep(stop);
                client.await("for the weights after a step");
            } else {
                simulation.sleep(PAUSE);
                for (int i = 0; i < STEPS; i++) {
                    client.ask(weights.setGradient(0, ones.address(), 1), Message.PUSH);
                    client.await("for the weights after a step");
                }
                otherIsDone.set(simulation.now());
                while (!returned.get()) {
                    group.doWork();
                    simulation.sleep(PAUSE);
                }
            }
            client.ask(weights.requests(), Message.PULL);
            client.await("for the weights");
            weights.adopt();
            returned.set(true);
            for (float each : parameter.value().toFloats()) {
                assertThat(each).isEqualTo(-1 - STEPS);
            }
            client.askForFarewell();
            client.await("for a farewell");
        } finally {
            client.close();
        }
    }
}
