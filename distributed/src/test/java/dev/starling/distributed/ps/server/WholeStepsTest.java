package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Message;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.nn.optim.Adafactor;
import dev.starling.nn.optim.Moments;
import dev.starling.nn.optim.Muon;
import dev.starling.nn.optim.TensorRule;
import dev.starling.tensor.Shape;
import dev.starling.tensor.TensorException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Steps on a parameter that a server holds as a whole, in three blocks, and plans with such parameters. */
@Timeout(60)
class WholeStepsTest {
    private static final Shape SHAPE = Shape.of(10, 13);
    private static final int[] LENGTHS = {64, 64, 2};

    @TempDir
    Path directory;

    static Stream<TensorRule> rules() {
        return Stream.of(new Moments(0.9, 0.999, 1e-6, 0.01, true), new Adafactor.Factored(-0.8, 1e-3, 1),
                new Muon.Orthogonal(0.95, true));
    }

    private static Plan.Dense whole(TensorRule rule, Shape shape) {
        return new Plan.Dense("p", shape.count(), ServerDriver.PLAIN, new Plan.Whole(rule, shape));
    }

    private static Plan plan(int servers, TensorRule rule) {
        return new Plan(servers, 2, 64, new Consistency.Asynchronous(), List.of(new Plan.Dense("before", 100,
                ServerDriver.PLAIN), whole(rule, SHAPE), new Plan.Dense("after", 5, ServerDriver.PLAIN)), List.of());
    }

    /** The whole parameter's blocks are the server's units 2, 3 and 4. A worker has another session in each unit. */
    private static void join(ServerDriver d, int worker, long session) throws InterruptedException {
        Random random = new Random(5);
        for (int unit = 0; unit < 6; unit++) {
            int[] all = {64, 36, 64, 64, 2, 5};
            d.join(worker, session + unit, unit, gaussian(random, all[unit]));
        }
    }

    private static float[] gaussian(Random random, int n) {
        float[] values = new float[n];
        for (int i = 0; i < n; i++) {
            values[i] = (float) random.nextGaussian();
        }
        return values;
    }

    private static float[] weights(ServerDriver d) throws InterruptedException {
        float[] all = new float[130];
        for (int unit = 2, at = 0; unit < 5; at += LENGTHS[unit++ - 2]) {
            System.arraycopy(d.pull(unit), 0, all, at, LENGTHS[unit - 2]);
        }
        return all;
    }

    /** Pushes the three blocks of a gradient; returns after the replies to all, or without any if the step waits. */
    private static void push(ServerDriver d, int worker, long sequence, float[] gradient, int from, int to)
            throws InterruptedException {
        for (int b = from, at = 64 * from; b < to; at += LENGTHS[b++]) {
            d.send(d.request.push(worker, 9 + b, sequence, 2 + b, 0.01, 1, Arrays.copyOfRange(gradient, at,
                    at + LENGTHS[b])));
        }
        for (int reply = 0; to == 3 && reply < 3; reply++) {
            RawReply each = d.next();
            assertThat(each.status()).isEqualTo(Message.DONE);
            assertThat(each.sequence()).isEqualTo(sequence);
        }
    }

    private float[] run(Plan plan, boolean breaks) throws IOException, InterruptedException {
        Random random = new Random(3);
        Path where = directory.resolve("0");
        ServerDriver d = new ServerDriver(breaks ? ServerDriver.config(where) : ServerConfig.inMemory(), plan);
        try {
            join(d, 0, 7);
            join(d, 1, 7);
            for (int k = 0; k < 12; k++) {
                for (int worker = 0; worker < 2; worker++) {
                    float[] g = gaussian(random, 130);
                    if (breaks && k % 3 == 2) {
                        // A part of a push is lost; the worker repeats all of it.
                        push(d, worker, k, g, 0, 2);
                        d.pull(0);
                        Path next = k % 2 == 0 ? ServerDriver.copy(where, directory.resolve(k + "-" + worker)) : where;
                        d.close();
                        where = next;
                        d = new ServerDriver(ServerDriver.config(where), plan);
                    }
                    push(d, worker, k, g, 0, 3);
                }
            }
            return weights(d);
        } finally {
            d.close();
        }
    }

    @ParameterizedTest
    @MethodSource("rules")
    void aRestartedServerHasTheBitsOfAnUninterruptedOne(TensorRule rule) throws IOException, InterruptedException {
        Plan plan = plan(1, rule);
        assertThat(run(plan, true)).containsExactly(run(plan, false));
    }

    @ParameterizedTest
    @MethodSource("rules")
    void changesNothingBeforeAllBlocksHaveArrived(TensorRule rule) throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(), plan(1, rule))) {
            join(d, 0, 7);
            join(d, 1, 7);
            float[] before = weights(d);
            float[] first = gaussian(new Random(1), 130);
            push(d, 0, 0, first, 0, 2);
            push(d, 1, 0, first, 0, 1);
            assertThat(weights(d)).containsExactly(before);
            // A repetition counts once.
            push(d, 0, 0, first, 0, 2);
            push(d, 0, 0, first, 2, 3);
            float[] after = weights(d);
            assertThat(after).isNotEqualTo(before);
            push(d, 1, 0, first, 1, 3);
            assertThat(weights(d)).isNotEqualTo(after);
        }
    }

    /** Blocks of a worker that was replaced do not become part of its successor's gradient. */
    @Test
    void dropsTheBlocksOfAReplacedWorker() throws InterruptedException {
        TensorRule lamb = new Moments(0.9, 0.999, 1e-6, 0.01, true);
        float[][] after = new float[2][];
        for (int replaced = 0; replaced < 2; replaced++) {
            try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(), plan(1, lamb))) {
                if (replaced == 1) {
                    join(d, 0, 6);
                    for (int b = 0; b < 2; b++) {
                        d.send(d.request.push(0, 8 + b, 0, 2 + b, 0.01, 1, gaussian(new Random(8), 64)));
                    }
                }
                join(d, 0, 7);
                push(d, 0, 0, gaussian(new Random(1), 130), 0, 3);
                after[replaced] = weights(d);
            }
        }
        assertThat(after[1]).containsExactly(after[0]);
    }

    @Test
    void refusesAStepWhoseDirectionIsNotFinite() throws InterruptedException {
        try (ServerDriver d = new ServerDriver(ServerConfig.inMemory(), plan(1, new Adafactor.Factored(-0.8, 1e-3,
                1)))) {
            join(d, 0, 7);
            float[] before = weights(d);
            float[] huge = new float[130];
            Arrays.fill(huge, 1e30f);
            for (int b = 0; b < 3; b++) {
                d.send(d.request.push(0, 9 + b, 0, 2 + b, 0.01, 1, Arrays.copyOf(huge, LENGTHS[b])));
            }
            assertThat(d.next().status()).isEqualTo(Message.NOT_FINITE);
            assertThat(weights(d)).containsExactly(before);
            push(d, 0, 0, gaussian(new Random(1), 130), 0, 3);
            assertThat(weights(d)).isNotEqualTo(before);
        }
    }

    @ParameterizedTest
    @MethodSource("rules")
    void plansKeepTheParameterOnOneServer(TensorRule rule) throws IOException {
        Plan plan = plan(2, rule);
        assertThat(Plan.decode(plan.encode())).isEqualTo(plan);
        long[] held = new long[2];
        for (int server = 0; server < 2; server++) {
            held[server] = plan.blocks(server).stream().filter(b -> b.parameter() == 1).mapToLong(Plan.Block::length)
                    .sum();
        }
        assertThat(held).containsExactly(0, 130);
    }

    @Test
    void plansRefuseWhatServersCannotApply() throws IOException {
        assertThatThrownBy(() -> whole(new Muon.Orthogonal(0.9, true), Shape.of(5))).isInstanceOf(
                TensorException.class).hasMessageContaining("two or more dimensions");
        Moments moments = new Moments(0.9, 0.999, 1e-6, 0, true);
        assertThatThrownBy(() -> whole(moments, Shape.of(1 << 15, 1 << 15))).isInstanceOf(TensorException.class)
                .hasMessageContaining("at most");
        assertThatThrownBy(() -> new Plan.Dense("p", 6, ServerDriver.PLAIN, new Plan.Whole(moments, Shape.of(2, 2))))
                .isInstanceOf(TensorException.class).hasMessageContaining("elements of its shape");
        assertThatThrownBy(() -> new Moments(1, 0.9, 1e-6, 0, true)).isInstanceOf(TensorException.class);
        assertThatThrownBy(() -> new Adafactor.Factored(-0.8, Double.NaN, 1)).isInstanceOf(TensorException.class);
        // Whatever bytes a peer sends, the answer is a plan or a typed exception.
        byte[] bytes = plan(1, moments).encode();
        Random random = new Random(2);
        for (int i = 0; i < 3000; i++) {
            byte[] bad = bytes.clone();
            bad[random.nextInt(bad.length)] = (byte) random.nextInt();
            try {
                Plan.decode(i % 3 == 0 ? Arrays.copyOf(bad, random.nextInt(bad.length)) : bad);
            } catch (IOException | TensorException e) {
                assertThat(e).isNotNull();
            }
        }
    }
}
