package dev.starling.distributed.ring;

import static dev.starling.distributed.ring.Runs.assertClose;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.distributed.Cluster;
import dev.starling.distributed.DistributedException;
import dev.starling.distributed.PeerLostException;
import dev.starling.distributed.coordinator.Coordinator;
import dev.starling.distributed.group.Membership;
import dev.starling.distributed.ring.Runs.Outcome;
import dev.starling.nn.train.Progress;
import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.tensor.Device;
import dev.starling.transport.Secret;
import dev.starling.transport.TransportConfig;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Gradients that devices sum among themselves. */
@Timeout(120)
class DeviceRingTest {
    private static final float ROUNDING = 5e-5f;
    private static final Duration TIMEOUT = Duration.ofSeconds(10);

    @BeforeEach
    void forget() {
        EmulatedDevices.SUMS.set(0);
        EmulatedDevices.LATE.set(0);
        EmulatedDevices.OPEN.set(0);
        EmulatedDevices.broken = "";
    }

    private static List<Outcome> ring(Cluster cluster, IntFunction<Device> device,
            UnaryOperator<RingAllReduce.Builder> options) {
        return cluster.run(group -> Device.with(device.apply(group.rank()), () -> Runs.train(Runs::cnn,
                options.apply(RingAllReduce.over(group).bucketBytes(512)).build(), b -> { })));
    }

    @ParameterizedTest
    @ValueSource(ints = {2, 3})
    void trainsAsOneProcessDoes(int world) {
        Outcome alone = Runs.train(Runs::cnn, new SingleProcess(), b -> { });
        List<Outcome> all = ring(Cluster.local(world), EmulatedDevices::of, r -> r);
        // Two buckets or more in each step.
        assertThat(EmulatedDevices.SUMS.get()).isGreaterThanOrEqualTo(2 * Runs.STEPS);
        assertClose(all.getFirst(), alone, ROUNDING);
        for (Outcome each : all) {
            assertClose(each, all.getFirst(), 0);
        }
    }

    @Test
    void sendsHalfTheBytes() {
        List<Outcome> both = ring(Cluster.local(2), EmulatedDevices::of, RingAllReduce.Builder::halfPrecision);
        assertThat(EmulatedDevices.SUMS.get()).isPositive();
        assertClose(both.get(1), both.get(0), 0);
        assertThat(both.get(0).history().last().heldOut().orElseThrow().metric("accuracy")).isGreaterThan(0.9);
    }

    @Test
    void usesTheHostWhereDevicesCannotSum() {
        Outcome alone = Runs.train(Runs::cnn, new SingleProcess(), b -> { });
        List<List<Outcome>> all = List.of(
                ring(Cluster.local(2), EmulatedDevices::of, RingAllReduce.Builder::throughHost),
                ring(Cluster.local(2), rank -> EmulatedDevices.of(0), r -> r),
                ring(Cluster.local(2), rank -> rank == 0 ? EmulatedDevices.of(0) : Device.cpu(), r -> r),
                ring(Cluster.local(2).hosts("a", "b"), EmulatedDevices::of, r -> r));
        assertThat(EmulatedDevices.SUMS).hasValue(0);
        for (List<Outcome> both : all) {
            assertClose(both.get(0), alone, ROUNDING);
            assertClose(both.get(1), both.get(0), 0);
        }
    }

    @Test
    void warnsOfRanksThatShareADevice() {
        List<String> logged = new CopyOnWriteArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord entry) {
                if (entry.getLevel() == Level.WARNING) {
                    logged.add(new SimpleFormatter().formatMessage(entry));
                }
            }

            @Override
            public void flush() { }

            @Override
            public void close() { }
        };
        Logger logger = Logger.getLogger("dev.starling.distributed");
        logger.addHandler(handler);
        try {
            ring(Cluster.local(3), rank -> EmulatedDevices.of(Math.max(1, rank)), r -> r);
            ring(Cluster.local(2), EmulatedDevices::of, r -> r);
        } finally {
            logger.removeHandler(handler);
        }
        assertThat(logged).singleElement().asString().contains("ranks [0, 1] share the device played:1",
                "a device of its own");
    }

    @Test
    void leavesTheOthersIfADeviceCannotJoin() {
        EmulatedDevices.broken = EmulatedDevices.of(1).toString();
        assertThatThrownBy(() -> ring(Cluster.local(2).timeout(Duration.ofSeconds(1)), EmulatedDevices::of, r -> r))
                .isInstanceOf(DistributedException.class);
        assertThat(EmulatedDevices.OPEN).hasValue(0);
    }

    @Test
    void endsWhenARankIsLost() {
        TrainingListener leaves = new TrainingListener() {
            @Override
            public void stepEnded(Progress progress) {
                if (progress.step() == 25) {
                    throw new IllegalStateException("leaves");
                }
            }
        };
        assertThatThrownBy(() -> Cluster.local(2).run(group -> Device.with(EmulatedDevices.of(group.rank()), () ->
                Runs.train(Runs::cnn, RingAllReduce.over(group).build(),
                        b -> b.listeners(group.rank() == 1 ? leaves : new TrainingListener() { })))))
                .isInstanceOfSatisfying(PeerLostException.class, e -> assertThat(e.rank()).isEqualTo(1));
        assertThat(EmulatedDevices.SUMS.get()).isPositive();
    }

    /** The group continues after the training, and still reports changes. */
    @Test
    void ignoresMembershipChangesAfterTheEnd() {
        Cluster cluster = new Cluster(TransportConfig.of("local", Secret.random()), 2, Coordinator.OnLoss.REFORM);
        cluster.run(group -> {
            Device.with(EmulatedDevices.of(group.rank()), () -> Runs.train(Runs::cnn,
                    RingAllReduce.over(group).build(), b -> { }));
            group.collectives().barrier().await(TIMEOUT);
            long epoch = group.epoch();
            try (Membership guest = group.rank() == 1 ? null : Membership.join(group.config().preferredRank(-1))) {
                assertThat(group.await(() -> group.epoch() > epoch, TIMEOUT)).isTrue();
            }
            return null;
        });
        assertThat(EmulatedDevices.SUMS.get()).isPositive();
        assertThat(EmulatedDevices.LATE).hasValue(0);
    }
}
