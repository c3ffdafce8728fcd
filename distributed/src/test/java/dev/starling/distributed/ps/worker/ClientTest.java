package dev.starling.distributed.ps.worker;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.store.RowRequest;
import dev.starling.distributed.ps.store.RowState;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.distributed.ps.wire.SessionMessage;
import dev.starling.nn.Layer;
import dev.starling.nn.layer.Linear;
import dev.starling.nn.optim.Optimizer;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.TrainingState;
import dev.starling.tensor.Generator;
import dev.starling.transport.Endpoint;
import dev.starling.transport.spi.Wire;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Function;
import org.agrona.concurrent.NanoClock;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(60)
class ClientTest {
    private static final long MINUTE_NS = 60_000_000_000L;
    private static final SecureRandom RANDOM = new SecureRandom();

    private static Client client(Membership group, TrainingState state) {
        Plan plan = new Plan(1, 1, 64, new Consistency.Asynchronous(), List.of(), List.of());
        return new Client(group, 0, plan, state.settings(), false, RANDOM);
    }

    private static BlockRequest push(Client client) {
        return new BlockRequest(client.servers[0], 0, new Plan.Block(0, 0, 4), new UnsafeBuffer(new byte[16]), RANDOM);
    }

    /** The server never answers; the client would wait until the time-out. */
    @Test
    void aFailedStepEndsTheRunIfRequestsAreOpen() {
        Cluster.local(2).servers(1).run(group -> {
            if (group.rank() == 1) {
                group.collectives().barrier().await(group.config().timeout());
                return null;
            }
            try (Layer model = Linear.of(2, 1, Generator.seeded(1)); Optimizer sgd = Sgd.over(model).build()) {
                Client client = client(group, TrainingState.of(model, sgd));
                client.open();
                client.abandonStep(false);
                client.ask(List.of(push(client)), Message.PUSH);
                client.abandonStep(false);
                assertThatThrownBy(() -> client.await("for nothing")).isInstanceOf(DistributedException.class)
                        .hasMessageContaining("resume from a checkpoint");
                client.close();
            }
            group.collectives().barrier().await(group.config().timeout());
            return null;
        });
    }

    /** Answers jobs of a worker; returns what contains the endpoint of a worker that has pushed. */
    private static AtomicReference<Endpoint> answer(Membership group, Function<RowRequest, Optional<RowState>> states) {
        AtomicReference<Endpoint> pushed = new AtomicReference<>();
        group.channel(Message.CHANNEL, (from, buffer, offset, length) -> {
            if (buffer.getInt(offset, Message.ORDER) != SessionMessage.KIND) {
                pushed.set(from);
                return;
            }
            try {
                switch (SessionMessage.decode(buffer, offset, length)) {
                    case SessionMessage.Hello _ -> send(from, new SessionMessage.Welcome(false, 1, Map.of()));
                    case SessionMessage.Task(byte[] request) -> {
                        RowRequest task = RowRequest.CODEC.decode(request);
                        states.apply(task).ifPresent(state -> send(from, new SessionMessage.TaskState(
                                RowState.Report.CODEC.encode(new RowState.Report(task.id(), state)))));
                    }
                    default -> { }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
        return pushed;
    }

    /** Answers a worker only after both processes were stopped, a job when the worker repeats its question. */
    private static void serve(Membership group, AtomicLong stoppedNs) {
        Set<Class<?>> asked = new HashSet<>();
        AtomicReference<Endpoint> pushed = answer(group, task -> {
            if (asked.add(task.action().getClass())) {
                stoppedNs.addAndGet(MINUTE_NS);
                return Optional.empty();
            }
            return Optional.of(task.action() instanceof RowRequest.Save ? new RowState.Running(0)
                    : new RowState.Saved("file", 0, ""));
        });
        while (pushed.get() == null) {
            group.await(() -> pushed.get() != null, Duration.ofSeconds(1));
        }
        group.await(() -> false, Duration.ofMillis(50));
        stoppedNs.addAndGet(MINUTE_NS);
        group.await(() -> false, Duration.ofMillis(250));
        group.locked(() -> send(pushed.get(), new SessionMessage.Refused("it has waited long enough")));
    }

    private static void send(Endpoint to, SessionMessage message) {
        UnsafeBuffer encoded = new UnsafeBuffer(message.encode(0));
        assertThat(to.send(encoded, 0, encoded.capacity())).isEqualTo(Endpoint.OK);
    }

    /** Returns a wire with another clock. */
    private static Wire withClock(Wire wire, NanoClock clock) {
        return (Wire) Proxy.newProxyInstance(Wire.class.getClassLoader(), new Class<?>[] {Wire.class},
                (proxy, method, arguments) -> method.getName().equals("clock") ? clock
                        : method.invoke(wire, arguments));
    }

    /** The time for which all processes were stopped, as those of a container are that is paused, does not count. */
    @Test
    void waitsOnAfterAllProcessesWereStopped(@TempDir Path directory) {
        AtomicLong stoppedNs = new AtomicLong();
        Cluster.local(2).servers(1).around(wire -> withClock(wire, () -> System.nanoTime() + stoppedNs.get()))
                .run(group -> {
                    if (group.rank() == 1) {
                        serve(group, stoppedNs);
                        return null;
                    }
                    try (Layer model = Linear.of(2, 1, Generator.seeded(1));
                            Optimizer sgd = Sgd.over(model).build()) {
                        Client client = client(group, TrainingState.of(model, sgd));
                        client.open();
                        RowJob job = RowJob.save(client, RANDOM, directory, 1);
                        assertThat(job.awaitServers()).isNull();
                        client.ask(List.of(push(client)), Message.PUSH);
                        assertThatThrownBy(() -> client.await("for an answer")).isInstanceOf(DistributedException.class)
                                .hasMessageContaining("it has waited long enough");
                        assertThat(stoppedNs).hasValue(3 * MINUTE_NS);
                        client.close();
                    }
                    return null;
                });
    }

    /** Progress ends the allowance for an earlier stop; the server makes none after it. */
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void noticesAHangAfterAStopAndProgress(boolean begun, @TempDir Path directory) {
        AtomicLong stoppedNs = new AtomicLong();
        AtomicInteger asked = new AtomicInteger();
        CountDownLatch over = new CountDownLatch(1);
        Cluster.local(2).servers(1).timeout(Duration.ofSeconds(2))
                .around(wire -> withClock(wire, () -> System.nanoTime() + stoppedNs.get())).run(group -> {
                    if (group.rank() == 1) {
                        answer(group, task -> {
                            if (begun && task.action() instanceof RowRequest.Save) {
                                return Optional.of(new RowState.Running(0));
                            }
                            if (asked.getAndIncrement() == 0) {
                                stoppedNs.addAndGet(MINUTE_NS);
                                return Optional.empty();
                            }
                            return Optional.of(begun ? new RowState.Running(1) : new RowState.Waiting());
                        });
                        while (over.getCount() > 0) {
                            group.await(() -> over.getCount() == 0, Duration.ofSeconds(1));
                        }
                        return null;
                    }
                    try (Layer model = Linear.of(2, 1, Generator.seeded(1));
                            Optimizer sgd = Sgd.over(model).build()) {
                        Client client = client(group, TrainingState.of(model, sgd));
                        client.open();
                        long startNs = System.nanoTime();
                        if (begun) {
                            assertThat(RowJob.save(client, RANDOM, directory, 1).awaitServers())
                                    .isEqualTo("no server makes progress with it");
                        } else {
                            assertThatThrownBy(() -> RowJob.save(client, RANDOM, directory, 1))
                                    .isInstanceOf(DistributedException.class)
                                    .hasMessageContaining("for servers to take a cut of their rows");
                        }
                        assertThat(System.nanoTime() - startNs).isLessThan(MINUTE_NS / 2);
                    } finally {
                        over.countDown();
                    }
                    return null;
                });
    }
}
