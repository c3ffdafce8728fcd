package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.coordinator.Coordinator.OnLoss;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ps.config.ServerConfig;
import dev.starling.distributed.ps.worker.Client;
import dev.starling.nn.optim.Sgd;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.TrainingListener;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A server is lost, and another process replaces it, with its directory or without weights. */
@Timeout(120)
class ServerReturnTest {
    private static final Duration SOON = Duration.ofSeconds(20);

    @TempDir
    Path directory;

    /** With {@code lastStep} the server is replaced before the worker's pull at the end of an epoch. */
    @ParameterizedTest
    @CsvSource({"false, false", "true, false", "false, true", "true, true"})
    void workersWarnOnceOfStateThatAServerInMemoryHasLost(boolean kept, boolean lastStep) {
        ServerConfig config = kept ? ServerConfig.in(directory) : ServerConfig.inMemory();
        CountDownLatch begun = new CountDownLatch(1);
        TransportConfig transport = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(6));
        List<String> warnings = Warnings.of(Client.class, () -> new Cluster(transport, 2, OnLoss.REFORM).servers(1)
                .timeout(Duration.ofSeconds(30)).run(group -> {
                    if (group.rank() == 1) {
                        Thread first = Thread.ofPlatform().daemon().start(() -> serveUntilClosed(group, config));
                        assertThat(begun.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
                        group.close();
                        assertThat(first.join(SOON)).isTrue();
                        try (Membership another = Membership.join(group.config())) {
                            ParameterServer.serve(another, config);
                        }
                        return null;
                    }
                    return CornerImages.train(CornerImages::perceptron, m -> Sgd.over(m).rate(0.01).build(), 3,
                            ParameterServer.worker(group, 0).workers(1).build(),
                            b -> b.listeners(new TrainingListener() {
                                @Override
                                public void stepEnded(Progress progress) {
                                    long when = lastStep ? progress.batches() : 10;
                                    if (progress.step() == when) {
                                        begun.countDown();
                                        group.await(() -> group.epoch() > 1 && group.failure() == null, SOON);
                                    }
                                }
                            }));
                }));
        if (kept) {
            assertThat(warnings).isEmpty();
        } else {
            assertThat(warnings).singleElement().asString().contains("updates that it had acknowledged are lost")
                    .contains("ServerConfig.in").contains("--server-data");
        }
    }

    /** As when a stopped process resumes after another process has replaced it. */
    @Test
    void refusesASecondProcessWithTheNumberOfALiveWorker() {
        CountDownLatch begun = new CountDownLatch(1);
        CountDownLatch refused = new CountDownLatch(1);
        TransportConfig transport = TransportConfig.of("local", Secret.random()).livenessTimeout(Duration.ofSeconds(2));
        new Cluster(transport, 3, OnLoss.REFORM).servers(1).run(group -> {
            if (group.rank() == 2) {
                ParameterServer.serve(group, ServerConfig.inMemory());
                return null;
            }
            boolean first = group.rank() == 0;
            if (!first) {
                assertThat(begun.await(SOON.toSeconds(), TimeUnit.SECONDS)).isTrue();
            }
            Callable<Object> training = () -> CornerImages.train(CornerImages::perceptron, m -> Sgd.over(m).rate(0.01)
                    .build(), 1,
                    ParameterServer.worker(group, 0).workers(1).build(), b -> b.listeners(new TrainingListener() {
                        @Override
                        public void stepEnded(Progress progress) {
                            begun.countDown();
                            group.await(() -> refused.getCount() == 0, SOON);
                        }
                    }));
            if (first) {
                return training.call();
            }
            assertThatThrownBy(training::call).isInstanceOf(DistributedException.class)
                    .hasMessageContaining("another process is worker 0, and it is alive");
            refused.countDown();
            return null;
        });
    }

    private static void serveUntilClosed(Membership group, ServerConfig config) {
        try {
            ParameterServer.serve(group, config);
        } catch (DistributedException closed) {
            assertThat(group.isEnded()).isTrue();
        }
    }
}
