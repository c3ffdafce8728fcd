package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.DistributedException;
import dev.starling.distributed.Group;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.Role;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.coordinator.CoordinatorThread;
import dev.starling.distributed.ps.config.Consistency;
import dev.starling.distributed.ps.server.ServerCrashTest;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Servers and workers, each in a process of its own, are killed while others continue. */
@Tag("processes")
@Timeout(200)
class NetworkFaultsTest {
    private static final int STEPS = 200;

    @TempDir
    Path directory;

    private final Secret secret = Secret.random();
    private final TransportConfig transport = TransportConfig.of("aeron", secret)
            .livenessTimeout(Duration.ofSeconds(3));
    private final List<Process> processes = new ArrayList<>();
    private CoordinatorThread coordinator;

    @AfterEach
    void end() throws InterruptedException {
        for (Process process : processes) {
            process.destroyForcibly().waitFor();
        }
        if (coordinator != null) {
            coordinator.close();
        }
    }

    private void coordinate(int world, Coordinator.OnLoss onLoss) {
        coordinator = CoordinatorThread.start(Coordinator.open(transport, world, onLoss, 1, MemberProgram.TIMEOUT));
    }

    private Process member(String role, int number) throws IOException {
        Process process = ServerCrashTest.start(MemberProgram.class, "-Xmx512m", role, coordinator.address(),
                secret.toHex(), directory.toString(), Integer.toString(number));
        processes.add(process);
        return process;
    }

    private interface Body<T> {
        T run(Group group) throws InterruptedException;
    }

    private <T> FutureTask<T> inThread(int request, Body<T> body) {
        FutureTask<T> task = new FutureTask<>(() -> {
            try (Group group = MemberProgram.join(transport, coordinator.address(), request,
                    new Role.Worker())) {
                return body.run(group);
            }
        });
        Thread.ofPlatform().daemon().name("worker-" + request).start(task);
        return task;
    }

    private static <T> T get(FutureTask<T> task) throws InterruptedException, TimeoutException {
        try {
            return task.get(150, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause() instanceof RuntimeException r ? r : new IllegalStateException(e.getCause());
        }
    }

    private static void awaitStep(AtomicLong step, long at) throws InterruptedException {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(100);
        while (step.get() < at) {
            assertThat(System.nanoTime()).as("step " + step + " of " + at).isLessThan(end);
            Thread.sleep(2);
        }
    }

    @Test
    void aRestartedServerHasAppliedEachUpdateOnce() throws Exception {
        restart(1, 200);
    }

    @Test
    @Tag("stress")
    void aServerThatIsRestartedAgainHasAppliedEachUpdateOnce() throws Exception {
        restart(4, 800);
    }

    private void restart(int kills, long steps) throws Exception {
        coordinate(3, Coordinator.OnLoss.REFORM);
        Process server = member("server", 2);
        AtomicLong progress = new AtomicLong();
        List<FutureTask<Long>> workers = new ArrayList<>();
        List<float[]> last = new ArrayList<>(List.of(new float[0], new float[0]));
        for (int w = 0; w < 2; w++) {
            int number = w;
            workers.add(inThread(w, group -> MemberProgram.work(group, number, 2, new Consistency.Asynchronous(),
                    (step, weights) -> {
                        last.set(number, weights);
                        progress.set(step);
                        return step < steps;
                    })));
        }
        for (int kill = 1; kill <= kills; kill++) {
            awaitStep(progress, steps * kill / (kills + 2));
            server.toHandle().destroyForcibly();
            server.waitFor();
            server = member("server", 2);
        }
        assertThat(get(workers.get(0))).isEqualTo(steps);
        assertThat(get(workers.get(1))).isEqualTo(steps);
        assertThat(server.waitFor(60, TimeUnit.SECONDS)).as("the server ends when all are done").isTrue();
        // Every gradient and the rate are 1, so the worker that finished last has the updates of both.
        float minimum = Math.min(last.get(0)[0], last.get(1)[0]);
        assertThat(minimum).isEqualTo(-2f * steps);
        float[] all = last.get(0)[0] == minimum ? last.get(0) : last.get(1);
        assertThat(all[MemberProgram.COUNT - 1]).isEqualTo(-2f * steps);
        assertThat(Arrays.copyOfRange(all, MemberProgram.COUNT, all.length)).as("rows").containsOnly(-2f * steps);
    }

    @Test
    void workersContinueWithoutAKilledOne() throws Exception {
        coordinate(4, Coordinator.OnLoss.REFORM);
        Process server = member("server", 3);
        AtomicLong progress = new AtomicLong();
        List<FutureTask<Long>> workers = new ArrayList<>();
        for (int w = 0; w < 2; w++) {
            int number = w;
            workers.add(inThread(w, group -> MemberProgram.work(group, number, 3, new Consistency.Stale(2),
                    (step, weights) -> {
                        progress.set(step);
                        return step < STEPS;
                    })));
        }
        Process killed = member("worker", 2);
        BufferedReader output = killed.inputReader();
        while (!output.readLine().equals("step 20")) {
            assertThat(killed.isAlive()).isTrue();
        }
        Thread drain = Thread.ofPlatform().daemon().start(() -> output.lines().forEach(line -> { }));
        killed.toHandle().destroyForcibly();
        killed.waitFor();
        assertThat(get(workers.get(0))).isEqualTo(STEPS);
        assertThat(get(workers.get(1))).isEqualTo(STEPS);
        assertThat(server.waitFor(60, TimeUnit.SECONDS)).isTrue();
        drain.join(5000);
    }

    @Test
    void synchronousWorkersReportTheLostOne() throws Exception {
        coordinate(2, Coordinator.OnLoss.END);
        Process server = member("server", 1);
        AtomicLong progress = new AtomicLong();
        FutureTask<Long> worker = inThread(0, group -> MemberProgram.work(group, 0, 1, new Consistency.Synchronous(),
                (step, weights) -> {
                    progress.set(step);
                    return true;
                }));
        awaitStep(progress, 10);
        server.toHandle().destroyForcibly();
        assertThatThrownBy(() -> get(worker)).isInstanceOf(PeerLostException.class).hasMessageContaining("rank 1")
                .isInstanceOf(DistributedException.class);
    }
}
