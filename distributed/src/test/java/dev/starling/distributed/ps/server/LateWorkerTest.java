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
import dev.starling.transport.simulated.Simulation;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The only worker comes shortly before the server's timeout, and the server takes some time to read its directory. */
@Timeout(60)
class LateWorkerTest {
    private static final int LENGTH = 100;
    private static final Duration LIMIT = Duration.ofMinutes(1);
    private static final Duration TIMEOUT = Duration.ofMillis(1000);
    /** Together longer than the timeout. */
    private static final Duration LATE = Duration.ofMillis(700);
    private static final Duration SLOW = Duration.ofMillis(600);
    private static final Logger LOG = Logger.getLogger("dev.starling.distributed");
    private static final TransportConfig CONFIG = TransportConfig.of("simulated", Secret.ofText("of 16 bytes, or more"))
            .livenessTimeout(Duration.ofSeconds(4));

    private final Plan plan = ServerDriver.plan(1, new Consistency.Asynchronous(), ServerDriver.PLAIN, LENGTH);
    private final Simulation simulation = Simulation.of(7);
    private final AtomicBoolean serving = new AtomicBoolean();
    private final AtomicBoolean slow = new AtomicBoolean();
    private final AtomicBoolean served = new AtomicBoolean();

    /** Takes time when the server has opened its directory. */
    private final class Opening extends Handler {
        @Override
        public void publish(LogRecord line) {
            if (line.getMessage().contains("is ready") && slow.compareAndSet(false, true)) {
                simulation.sleep(SLOW);
            }
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }
    }

    @Test
    void isServed() {
        Handler opening = new Opening();
        LOG.addHandler(opening);
        try (simulation) {
            simulation.start("coordinator", () -> {
                try (Coordinator coordinator = Coordinator.over(Transport.over(simulation.wire("coordinator"), CONFIG),
                        2, Coordinator.OnLoss.REFORM, 1, LIMIT)) {
                    coordinator.run(LIMIT.dividedBy(2));
                } catch (TransportException e) {
                    assertThat(e.problem()).isEqualTo(TransportException.Problem.TIMED_OUT);
                }
            });
            for (int i = 0; i < 2; i++) {
                int rank = i;
                String name = "rank" + rank;
                simulation.start(name, () -> {
                    GroupConfig joining = GroupConfig.of(null, "coordinator").place(rank, 1).host(name);
                    try (Membership group = Membership.join(Transport.over(simulation.wire(name), CONFIG),
                            rank == 1 ? joining.timeout(TIMEOUT) : joining, false, _ -> { })) {
                        if (rank == 1) {
                            serving.set(true);
                            ParameterServer.serve(group, ServerConfig.inMemory().ringSize(0));
                            served.set(true);
                        } else {
                            work(group);
                        }
                    }
                });
            }
            simulation.run(LIMIT);
        } finally {
            LOG.removeHandler(opening);
        }
        assertThat(slow).as("the server was slow").isTrue();
        assertThat(served).isTrue();
    }

    private void work(Membership group) {
        while (!serving.get()) {
            group.doWork();
            simulation.sleep(Duration.ofMillis(1));
        }
        simulation.sleep(LATE);
        SecureRandom random = new SecureRandom();
        Client client = new Client(group, 0, plan, new RunSettings(Map.of()), false, random);
        try (Parameter parameter = Parameter.buffer(Tensor.zeros(LENGTH));
                WorkerWeights weights = new WorkerWeights(List.of(parameter), plan, client.servers, random)) {
            client.open();
            client.ask(weights.requests(), Message.JOIN);
            client.await("for the weights");
            client.askForFarewell();
            client.await("for a farewell");
        } finally {
            client.close();
        }
    }
}
