package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.cuda.emulated.FakeDriver;
import dev.starling.cuda.emulated.FakeLibraries;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Spec;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.spi.DeviceCollectives;
import dev.starling.tensor.spi.DeviceGroup;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIf;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** Sums over two emulated GPUs, by a fake NCCL. */
@EnabledIf(value = "dev.starling.cuda.emulated.FakeLibraries#areAvailable",
        disabledReason = "needs g++ on Linux on x86-64, and no NVIDIA driver")
@Timeout(60)
class NcclTest {
    private static final int WORLD = 2;
    private static final Duration TIMEOUT = Duration.ofSeconds(20);
    /** The fake library begins a sum of this many elements but never queues it. */
    private static final int NEVER_QUEUED = 7777;

    private static Device device(int rank) {
        return Device.of("cuda-emulated", rank + 1);
    }

    /** Runs the body of each rank in a thread of its own. */
    private static <T> List<T> ranks(BiFunction<Integer, DeviceGroup, T> body) {
        byte[] identifier = device(0).backend().collectives().identifier();
        List<CompletableFuture<T>> all = new ArrayList<>();
        for (int r = 0; r < WORLD; r++) {
            int rank = r;
            all.add(CompletableFuture.supplyAsync(() -> {
                DeviceGroup group = device(rank).backend().collectives().join(identifier, rank, WORLD);
                await(group);
                return body.apply(rank, group);
            }, task -> Thread.ofPlatform().daemon().start(task)));
        }
        return all.stream().map(CompletableFuture::join).toList();
    }

    private static void await(DeviceGroup group) {
        while (!group.isDone()) {
            Thread.onSpinWait();
        }
    }

    /** A missing identifier stands for any failure to join. */
    @Test
    void closesEventsWhereJoiningFails() {
        FakeDriver.devices(2);
        DeviceCollectives collectives;
        try {
            collectives = Device.of("cuda-emulated", EmulatedProvider.WITH_LIBRARIES).backend().collectives();
        } finally {
            FakeDriver.devices(0);
        }
        long before = FakeDriver.count("events");
        assertThatThrownBy(() -> collectives.join(null, 0, WORLD)).isInstanceOf(NullPointerException.class);
        assertThat(FakeDriver.count("events")).isEqualTo(before);
    }

    private static Tensor numbers(DType type, int rank) {
        return Generator.seeded(rank + 1).uniform(new Spec(type, Shape.of(1000), device(rank)), -1, 1);
    }

    @ParameterizedTest
    @EnumSource(names = {"F32", "F64", "BF16", "F16"})
    void sumsAfterEarlierAndBeforeLaterWork(DType type) {
        List<double[]> sums = ranks((rank, group) -> {
            Tensor x = numbers(type, rank).mul(2);
            group.allReduce(x, TIMEOUT);
            group.await();
            double[] half = x.mul(0.5).to(DType.F64).to(Device.cpu()).toDoubles();
            await(group);
            group.close();
            return half;
        });
        assertThat(sums.get(1)).containsExactly(sums.get(0));
        Tensor expected = numbers(type, 0).to(DType.F64).to(Device.cpu())
                .add(numbers(type, 1).to(DType.F64).to(Device.cpu()));
        Tensor error = Tensor.of(sums.get(0), 1000).sub(expected).abs().max();
        assertThat(error.item()).isLessThan(type.bytes() == 2 ? 1e-2 : type == DType.F32 ? 1e-6 : 1e-15);
    }

    @AfterEach
    void theLibraryReportsNoMisuse() {
        assertThat(FakeLibraries.firstMisuse()).isEmpty();
    }

    @Test
    void queuesManySums() {
        List<Double> sums = ranks((rank, group) -> {
            Tensor[] all = new Tensor[20];
            for (int i = 0; i < all.length; i++) {
                all[i] = Tensor.full(DType.F32, i + rank, 64).to(device(rank));
                group.allReduce(all[i], TIMEOUT);
            }
            await(group);
            group.await();
            group.close();
            double total = 0;
            for (Tensor each : all) {
                total += each.sum().item();
            }
            return total;
        });
        assertThat(sums).containsOnly(64 * (2 * 190.0 + 20));
    }

    /** A rank's kernels run while its sum waits for the other rank, which joins the sum only when they are done. */
    @Test
    void runsKernelsBesideSums() {
        CountDownLatch computed = new CountDownLatch(1);
        List<Double> sums = ranks((rank, group) -> {
            Tensor x = Tensor.full(DType.F32, rank + 1, 64).to(device(rank));
            if (rank == 1) {
                awaitOther(computed);
            }
            group.allReduce(x, TIMEOUT);
            if (rank == 0) {
                assertThat(Tensor.full(DType.F32, 3, 8).to(device(0)).mul(2).sum().item()).isEqualTo(48);
                assertThat(group.isDone()).isFalse();
                computed.countDown();
            }
            group.await();
            double sum = x.sum().item();
            group.close();
            return sum;
        });
        assertThat(sums).containsOnly(64.0 * 3);
    }

    private static void awaitOther(CountDownLatch other) {
        try {
            assertThat(other.await(TIMEOUT.toSeconds(), TimeUnit.SECONDS)).isTrue();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void failsAtTheTimeoutIfTheLibraryDoesNotBeginASum() {
        List<Boolean> ended = ranks((rank, group) -> {
            Tensor x = Tensor.full(DType.F32, 3, NEVER_QUEUED).to(device(rank));
            assertThatThrownBy(() -> group.allReduce(x, Duration.ofMillis(50)))
                    .isInstanceOfSatisfying(TensorException.class, e -> assertThat(e).hasMessageContaining("PT0.05S"));
            group.abort();
            group.close();
            return x.sum().item() == 3 * NEVER_QUEUED;
        });
        assertThat(ended).containsOnly(true);
    }

    /** The memory of an aborted sum may be reused once the group is closed. */
    @Test
    void waitsForAnAbortedSumWhenClosed() {
        List<Double> sums = ranks((rank, group) -> {
            if (rank == 0) {
                try (Scope scope = Scope.open()) {
                    group.allReduce(Tensor.full(DType.F32, 3, 64).to(device(rank)), TIMEOUT);
                    group.abort();
                    group.close();
                    group.close();
                }
                return Tensor.full(DType.F32, 5, 64).to(device(rank)).sum().item();
            }
            group.abort();
            group.close();
            return 320.0;
        });
        assertThat(sums).containsOnly(320.0);
    }

    @Test
    void abortsASumThatWaitsForALostRank() {
        List<float[]> kept = ranks((rank, group) -> {
            Tensor x = Tensor.full(DType.F32, 3, 8).to(device(rank));
            if (rank == 1) {
                group.abort();
                return x.toFloats();
            }
            group.allReduce(x, TIMEOUT);
            assertThat(group.isDone()).isFalse();
            Thread.ofPlatform().daemon().start(group::abort);
            group.await();
            float[] left = x.toFloats();
            assertThatThrownBy(() -> group.allReduce(x, TIMEOUT)).isInstanceOfSatisfying(TensorException.class,
                    e -> assertThat(e.problem()).isEqualTo(TensorException.Problem.CLOSED));
            return left;
        });
        assertThat(kept).hasSize(WORLD);
    }

    @Test
    void givesDevicesUniqueNames() {
        DeviceCollectives first = device(0).backend().collectives();
        assertThat(first.device()).isNotEqualTo(device(1).backend().collectives().device());
        assertThat(first.identifier()).hasSize(128).isNotEqualTo(first.identifier());
    }
}
