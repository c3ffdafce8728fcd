package dev.starling.transport.contract;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.transport.contract.Cluster.Connection;
import dev.starling.transport.contract.Cluster.Member;
import java.time.Duration;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/** What every transport does when peers fall silent. */
class SilentPeersTest {
    @TestFactory
    Stream<DynamicTest> losesASilentPeerInTimeAndNoOther() {
        return Overlapping.in(Setting.all(), SilentPeersTest::loseASilentPeerInTimeAndNoOther);
    }

    private static void loseASilentPeerInTimeAndNoOther(Setting setting) {
        // Work that one thread does for all members may pause for a while on a busy machine.
        Duration timeout = setting.isSimulated() ? Duration.ofMillis(400) : Duration.ofSeconds(1);
        try (Cluster cluster = new Cluster(setting)) {
            Member a = cluster.member(c -> c.livenessTimeout(timeout));
            Connection silent = cluster.connect(a, cluster.member(c -> c.livenessTimeout(timeout)));
            Connection lively = cluster.connect(a, cluster.member(c -> c.livenessTimeout(timeout)));
            cluster.work(timeout.plusMillis(100));
            assertThat(silent.toB().isConnected()).as("heartbeats keep it").isTrue();
            silent.b().driven = false;
            long lastReceived = silent.toB().lastReceivedNs();
            cluster.await(() -> !a.lost.isEmpty(), "the loss");
            long after = a.transport.nanoTime() - silent.toB().lastReceivedNs();
            assertThat(a.lost).containsExactly(silent.toB());
            assertThat(silent.toB().lastReceivedNs()).isGreaterThanOrEqualTo(lastReceived);
            assertThat(Duration.ofNanos(after)).isBetween(timeout, timeout.plus(setting.isSimulated()
                    ? Duration.ofMillis(300) : Duration.ofSeconds(1)));
            assertThat(silent.toB().reason()).contains(silent.b().transport.address()).containsPattern("\\d+ ms");
            assertThat(a.transport.counters().lostPeers()).isEqualTo(1);
            assertThat(lively.toB().isConnected()).isTrue();
        }
    }
}
