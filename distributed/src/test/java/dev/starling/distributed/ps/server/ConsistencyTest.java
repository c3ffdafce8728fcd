package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.tensor.op.Rule;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Which workers wait for which under each consistency, and that repeated requests have no effect. */
@Timeout(60)
class ConsistencyTest {
    private static final float[] ONE = {1, 1, 1, 1};

    @Test
    void answersAsynchronousWorkersImmediatelyWithThePresentWeights() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(2, new Consistency.Asynchronous(), ServerDriver.PLAIN, 4))) {
            assertThat(d.join(0, 7, 0, 10, 20, 30, 40).floats()).containsExactly(10, 20, 30, 40);
            assertThat(d.push(0, 7, 0, 0, 1, ONE).floats()).containsExactly(9, 19, 29, 39);
            assertThat(d.push(0, 7, 1, 0, 0.5, ONE).floats()).containsExactly(8.5f, 18.5f, 28.5f, 38.5f);
            assertThat(d.join(1, 8, 0).floats()).containsExactly(8.5f, 18.5f, 28.5f, 38.5f);
            assertThat(d.push(1, 8, 0, 0, 1, ONE).floats()).containsExactly(7.5f, 17.5f, 27.5f, 37.5f);
        }
    }

    @Test
    void appliesARepeatedPushOnce() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(1, new Consistency.Asynchronous(), ServerDriver.PLAIN, 4))) {
            d.join(0, 7, 0, 0, 0, 0, 0);
            for (int k = 0; k < 5; k++) {
                for (int repeat = 0; repeat < 3; repeat++) {
                    RawReply a = d.push(0, 7, k, 0, 1, ONE);
                    assertThat(a.sequence()).isEqualTo(k);
                    assertThat(a.floats()).containsOnly(-(k + 1f));
                }
            }
            assertThat(d.join(0, 7, 0, 5, 5, 5, 5).sequence()).as("the session continues").isEqualTo(4);
            assertThat(d.pull(0)).containsOnly(-5f);
        }
    }

    @Test
    void refusesOldSessionsAndMalformedRequests() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(2, new Consistency.Asynchronous(), ServerDriver.PLAIN, 4))) {
            d.join(0, 7, 0, 0, 0, 0, 0);
            d.push(0, 7, 0, 0, 1, ONE);
            assertThat(d.join(0, 9, 0).sequence()).isEqualTo(-1);
            assertThat(d.push(0, 7, 1, 0, 1, ONE).status()).isEqualTo(2);
            long refused = d.core.refused();
            d.send(d.request.push(0, 9, 5, 0, 1, 1, ONE));
            d.send(d.request.push(5, 9, 0, 0, 1, 1, ONE));
            d.send(d.request.push(0, 9, 0, 3, 1, 1, ONE));
            d.send(d.request.push(0, 9, 0, 0, 1, 1, 1, 1, 1));
            d.send(d.request.push(0, 9, 0, 0, Double.NaN, 1, ONE));
            d.send(d.request.of(99, 0, 9, 0, 0, 1, 1, ONE));
            d.send(d.request.push(0, 9, 0, 0, 1, 1, new float[100]));
            d.request.push(0, 9, 0, 0, 1, 1, ONE).length = 13;
            d.send(d.request);
            assertThat(d.pull(0)).containsOnly(-1f);
            assertThat(d.core.refused() - refused).isEqualTo(8);
        }
    }

    @Test
    void othersWaitForTheInitialWeights() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(2, new Consistency.Asynchronous(), ServerDriver.PLAIN, 2))) {
            d.send(d.request.join(1, 8, 0));
            assertThat(d.pull(0)).as("there are no weights yet, and the join is not answered").isEmpty();
            d.send(d.request.join(0, 7, 0, 3, 4));
            List<Integer> answered = List.of(d.next().worker(), d.next().worker());
            assertThat(answered).containsExactlyInAnyOrder(0, 1);
            assertThat(d.pull(0)).containsExactly(3, 4);
        }
    }

    /** Random workers push whenever they are answered; the test computes independently which of them must wait. */
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 3})
    void noWorkerIsFurtherAheadOfTheSlowestThanTheBound(int bound) throws InterruptedException {
        int workers = 4;
        Random random = new Random(bound);
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(workers, new Consistency.Stale(bound), ServerDriver.PLAIN, 2))) {
            d.join(0, 100, 0, 0, 0);
            for (int w = 1; w < workers; w++) {
                d.join(w, 100 + w, 0);
            }
            long[] done = new long[workers];
            boolean[] waiting = new boolean[workers];
            long furthest = 0;
            for (int i = 0; i < 2000; i++) {
                // Worker 3 is slow.
                int w = random.nextInt(10) == 0 ? 3 : random.nextInt(workers - 1);
                if (waiting[w]) {
                    continue;
                }
                d.send(d.request.push(w, 100 + w, done[w]++, 0, 1, 1, 1, 1));
                waiting[w] = true;
                d.awaitReplies(waiting, done);
                long slowest = java.util.Arrays.stream(done).min().getAsLong();
                for (int v = 0; v < workers; v++) {
                    assertThat(waiting[v]).as("worker %d at %d, the slowest at %d", v, done[v], slowest)
                            .isEqualTo(done[v] - slowest > bound);
                    furthest = Math.max(furthest, waiting[v] ? 0 : done[v] - slowest);
                }
            }
            assertThat(furthest).isEqualTo(bound);
        }
    }

    @Test
    void aLostWorkerBlocksNoOtherAndMayReturn() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(2, new Consistency.Stale(1), ServerDriver.PLAIN, 4))) {
            d.join(0, 7, 0, 0, 0, 0, 0);
            d.join(1, 8, 0);
            d.push(0, 7, 0, 0, 1, ONE);
            d.send(d.request.push(0, 7, 1, 0, 1, 1, ONE));
            assertThat(d.pull(0)).as("applied, though not answered").containsOnly(-2f);
            assertThat(d.core.leave(1, 0)).isTrue();
            assertThat(d.next().sequence()).isEqualTo(1);
            for (int k = 2; k < 10; k++) {
                d.push(0, 7, k, 0, 1, ONE);
            }
            assertThat(d.push(1, 8, 0, 0, 1, ONE).floats()).as("considered lost, and back").containsOnly(-11f);
            assertThat(d.core.leave(1, 0)).isTrue();
            assertThat(d.push(1, 8, 0, 0, 1, ONE).floats()).as("it repeats its push").containsOnly(-11f);
            assertThat(d.join(1, 9, 0).floats()).as("another in its place").containsOnly(-11f);
            assertThat(d.push(1, 8, 1, 0, 1, ONE).status()).as("no more").isEqualTo(2);
            d.push(0, 7, 10, 0, 1, ONE);
            d.send(d.request.push(0, 7, 11, 0, 1, 1, ONE));
            assertThat(d.pull(0)).as("waits for the one that came back").containsOnly(-13f);
            d.send(d.request.push(1, 9, 0, 0, 1, 1, ONE));
            assertThat(List.of(d.next().worker(), d.next().worker())).containsExactlyInAnyOrder(0, 1);
        }
    }

    /** The connection breaks while the worker waits; the worker repeats its push over a new one. */
    @Test
    void aWorkerThatReturnsIsAsFarAheadAsItWas() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(2, new Consistency.Stale(1), ServerDriver.PLAIN, 4))) {
            d.join(0, 7, 0, 0, 0, 0, 0);
            d.join(1, 8, 0);
            d.push(0, 7, 0, 0, 1, ONE);
            d.send(d.request.push(0, 7, 1, 0, 1, 1, ONE));
            assertThat(d.core.leave(0, 0)).isTrue();
            d.send(d.request.push(0, 7, 1, 0, 1, 1, ONE));
            assertThat(d.request(d.request.pull(0)).kind()).as("the push is not answered").isEqualTo(Message.PULL);
            d.send(d.request.push(1, 8, 0, 0, 1, 1, ONE));
            assertThat(List.of(d.next().worker(), d.next().worker())).containsExactlyInAnyOrder(0, 1);
        }
    }

    @Test
    void synchronousStepsHaveTheSameBitsInAnyOrderOfArrival() throws InterruptedException {
        int workers = 4;
        int steps = 6;
        float[] reference = null;
        for (int trial = 0; trial < 12; trial++) {
            Random data = new Random(1);
            Random order = new Random(trial);
            try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(), ServerDriver.plan(workers,
                    new Consistency.Synchronous(),
                    new Rule.Adam(0.9, 0.999, 1e-8, 0.01, false), 50))) {
                d.join(0, 100, 0, new float[50]);
                for (int w = 1; w < workers; w++) {
                    d.join(w, 100 + w, 0);
                }
                float[] last = null;
                for (int k = 0; k < steps; k++) {
                    float[][] gradients = new float[workers][50];
                    for (float[] g : gradients) {
                        for (int i = 0; i < g.length; i++) {
                            g[i] = (float) data.nextGaussian();
                        }
                    }
                    List<Integer> turns = new ArrayList<>(List.of(0, 1, 2, 3));
                    Collections.shuffle(turns, order);
                    for (int w : turns) {
                        d.send(d.request.push(w, 100 + w, k, 0, 0.01, 0.125 * (w + 1), gradients[w]));
                        if (order.nextInt(3) == 0) {
                            d.send(d.request);
                        }
                    }
                    for (int w = 0; w < workers; w++) {
                        last = d.next().floats();
                    }
                    d.awaitReplies(new boolean[workers], new long[workers]);
                }
                reference = reference == null ? last : reference;
                assertThat(last).containsExactly(reference);
            }
        }
        assertThat(reference).doesNotContain(0);
    }

    @Test
    void synchronousStepsTakeTheWeightedSum() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(),
                ServerDriver.plan(3, new Consistency.Synchronous(), ServerDriver.PLAIN, 2))) {
            d.join(0, 1, 0, 0, 0);
            d.join(1, 1, 0);
            d.join(2, 1, 0);
            d.send(d.request.push(0, 1, 0, 0, 1, 0.25, 4, 8));
            d.send(d.request.push(1, 1, 0, 0, 1, 0.5, 1, 2));
            assertThat(d.pull(0)).as("one is missing").containsExactly(0, 0);
            d.send(d.request.push(2, 1, 0, 0, 1, 0.25));
            for (int w = 0; w < 3; w++) {
                assertThat(d.next().floats()).containsExactly(-(0.25f * 4 + 0.5f), -(0.25f * 8 + 0.5f * 2));
            }
            // In the next step worker 2 leaves after the others have sent their gradients.
            d.send(d.request.push(1, 1, 1, 0, 1, 0.5, 1, 1));
            d.send(d.request.push(0, 1, 1, 0, 1, 0.5, 1, 1));
            assertThat(d.core.leave(2, 0)).isTrue();
            assertThat(d.next().floats()).containsExactly(-2.5f, -4);
            d.next();
        }
    }
}
