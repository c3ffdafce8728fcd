package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.management.ThreadMXBean;
import dev.starling.distributed.Cluster;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.wire.Plan;
import dev.starling.tensor.op.Rule;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** In steady state the stages of a server allocate nothing. */
@Timeout(120)
class AllocationTest {
    private static final int LENGTH = 1000;

    @TempDir
    Path directory;

    @Test
    void aPipelineInSteadyStateAllocatesNothing() throws InterruptedException {
        Cluster.awaitEarlier();
        assertAllocatesNothing(new Consistency.Asynchronous());
        assertAllocatesNothing(new Consistency.Stale(1));
        assertAllocatesNothing(new Consistency.Synchronous());
    }

    private void assertAllocatesNothing(Consistency consistency) throws InterruptedException {
        Plan plan = new Plan(1, 2, LENGTH, consistency, List.of(new Plan.Dense("p", LENGTH,
                new Rule.Adam(0.9, 0.999, 1e-8, 0, false))),
                List.of(new Plan.Table("rows", 8, 1000, 0.1, new Rule.Adagrad(1e-8, 0, 0))));
        AtomicLong replies = new AtomicLong();
        ServerConfig config = new ServerConfig(directory.resolve(consistency.getClass().getSimpleName()), 1L << 40,
                1 << 20, 64, Duration.ofSeconds(20));
        ThreadMXBean threads = (ThreadMXBean) ManagementFactory.getThreadMXBean();
        try (ServerCore core = ServerCore.open(config, plan, 0, (worker, buffer, length) -> {
            replies.incrementAndGet();
            return true;
        })) {
            RawRequest[] joins = {new RawRequest().join(0, 7, 0, new float[LENGTH]), new RawRequest().join(1, 7, 0),
                new RawRequest().join(0, 7, 1), new RawRequest().join(1, 7, 1)};
            for (RawRequest join : joins) {
                assertThat(core.offer(join.buffer, 0, join.length)).isTrue();
            }
            RawRequest dense = new RawRequest();
            RawRequest rows = new RawRequest();
            float[] g = new float[LENGTH];
            long[] keys = {1, 2, 3, 1 << 20, -5};
            long[] ids = Thread.getAllStackTraces().keySet().stream()
                    .filter(t -> t.getName().startsWith("starling-ps-0")).mapToLong(Thread::threadId).toArray();
            assertThat(ids).hasSize(4);
            long minAllocated = Long.MAX_VALUE;
            int step = 0;
            for (int round = 0; round < 6 && minAllocated > 0; round++) {
                long[] before = threads.getThreadAllocatedBytes(ids);
                for (int i = 0; i < 1000; i++, step++) {
                    for (int w = 0; w < 2; w++) {
                        send(core, dense.push(w, 7, step, 0, 0.01, 1, g));
                        send(core, rows.pushRows(w, 7, step, 1, 0.01, 1, 1, 5, keys, new float[40]));
                    }
                    long expected = 4 + 4L * (step + 1);
                    long end = System.nanoTime() + 20_000_000_000L;
                    while (replies.get() < expected) {
                        core.check();
                        assertThat(System.nanoTime()).isLessThan(end);
                        Thread.yield();
                    }
                }
                long[] after = threads.getThreadAllocatedBytes(ids);
                long allocated = 0;
                for (int t = 0; t < ids.length; t++) {
                    allocated += after[t] - before[t];
                }
                minAllocated = Math.min(minAllocated, allocated);
            }
            // The minimum over rounds excludes one-time work of the JVM, such as loading a class late.
            assertThat(minAllocated).as("bytes in 4000 updates, %s", consistency).isZero();
        }
    }

    private static void send(ServerCore core, RawRequest request) {
        while (!core.offer(request.buffer, 0, request.length)) {
            Thread.yield();
        }
    }
}
