package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import dev.starling.transport.spi.Wire;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The loss of a member ends a synchronous run on all members, whether the group continues without it or not. */
@Timeout(120)
class SynchronousLossTest {
    private static final Duration SOON = Duration.ofSeconds(20);
    private static final int WORKERS = 3;
    private static final int WORLD = 5;
    private static final int LAST = 10;

    private final Map<String, Wire> wires = new ConcurrentHashMap<>();
    private final CountDownLatch begun = new CountDownLatch(1);
    private final CountDownLatch lostNow = new CountDownLatch(1);
    private final CountDownLatch ended = new CountDownLatch(WORLD - 1);
    private final AtomicLong furthest = new AtomicLong();

    private enum Way { KILLED, LEAVES, REPLACED }

    @ParameterizedTest
    @CsvSource({"REFORM, KILLED, 1", "REFORM, LEAVES, 1", "END, LEAVES, 1", "REFORM, REPLACED, 1",
            "REFORM, KILLED, 4", "END, LEAVES, 4"})
    void allMembersReportTheLostOneAndTakeNoStepWithoutIt(OnLoss onLoss, Way way, int lost) {
        TransportConfig transport = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(3));
        List<DistributedException> failures = new Cluster(transport, WORLD, onLoss).servers(WORLD - WORKERS)
                .timeout(Duration.ofSeconds(30)).around(wire -> {
                    wires.put(Thread.currentThread().getName(), wire);
                    return wire;
                }).run(group -> {
                    int rank = group.rank();
                    if (rank == lost) {
                        lose(group, rank, way);
                        return null;
                    }
                    DistributedException failure = failure(group, rank, new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            furthest.accumulateAndGet(progress.step(), Math::max);
                            if (rank == 0 && progress.step() == LAST) {
                                compute(group, way);
                            }
                        }
                    });
                    ended.countDown();
                    return failure;
                });
        for (int rank = 0; rank < WORLD; rank++) {
            if (rank != lost) {
                assertThat(failures.get(rank)).as("rank %d", rank).isInstanceOfSatisfying(PeerLostException.class,
                        e -> assertThat(e.rank()).as(e.getMessage()).isEqualTo(lost));
            }
        }
        assertThat(furthest).as("the last step").hasValue(LAST);
    }

    /** Trains or serves until the run fails; returns the failure. */
    private static DistributedException failure(Membership group, int rank, TrainingListener listener) {
        try {
            if (rank >= WORKERS) {
                ParameterServer.serve(group, ServerConfig.inMemory());
            } else {
                CornerImages.train(CornerImages::perceptron, m -> Sgd.over(m).rate(0.01).build(), 20,
                        ParameterServer.worker(group, rank).workers(WORKERS).servers(WORLD - WORKERS)
                                .consistency(new Consistency.Synchronous()).build(), b -> b.listeners(listener));
            }
            return null;
        } catch (DistributedException e) {
            return e;
        }
    }

    /** Computes until the other member is lost and the group has continued without it, if it does. */
    private void compute(Membership group, Way way) {
        begun.countDown();
        await(lostNow);
        if (way != Way.LEAVES) {
            assertThat(group.await(() -> group.epoch() > 1 && group.failure() == null || group.isEnded(), SOON))
                    .isTrue();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            assertThat(latch.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    private void lose(Membership group, int rank, Way way) throws InterruptedException {
        String wire = Thread.currentThread().getName();
        Thread body = Thread.ofPlatform().daemon().name("lost").start(() -> failure(group, rank,
                new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        if (progress.step() == LAST) {
                            // The lost worker sends no gradient for the next step.
                            await(ended);
                        }
                    }
                }));
        await(begun);
        if (way == Way.LEAVES) {
            group.close();
        } else {
            group.locked(wires.get(wire)::close);
        }
        lostNow.countDown();
        if (way == Way.REPLACED) {
            AtomicLong steps = new AtomicLong();
            try (Membership another = Membership.join(group.config())) {
                assertThat(failure(another, rank, new TrainingListener() {
                    @Override
                    public void stepEnded(Progress progress) {
                        steps.incrementAndGet();
                    }
                })).isNotNull();
            }
            assertThat(steps).as("steps of the replacement").hasValue(0);
        }
        await(ended);
        body.join(SOON);
    }
}
