package dev.starling.distributed.network;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import dev.starling.nn.train.SingleProcess;
import dev.starling.nn.train.TrainingListener;
import dev.starling.transport.Transport;
import dev.starling.transport.spi.WireProvider;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Three real processes, each on a host of its own, train together while the network between them fails. */
@Tag("processes")
@Timeout(100)
class BadNetworkTest {
    private static final int WORLD = 3;
    private static final int PORT = 7100;
    private static final int COORDINATOR_PORT = 7000;
    private static final int RELAY_PORT = 9000;
    private static final int STEPS = 60;
    private static final int UNTIL_STOPPED = 1_000_000;
    private static final long LONG_SILENCE_MS = 15_000;
    private static final long SILENCE_MS = 3_000;
    /** How much longer than the timeout a report may take, on a machine with other load. */
    private static final long SLACK_MS = 5_000;
    private static final long START_S = 40;
    private static final long END_S = 50;
    private static final float ROUNDING = 2e-5f;

    private final List<Program> programs = new ArrayList<>();
    private final String secret = hex();
    private HostNetwork network;
    private Path directory;

    @BeforeEach
    void layOut() throws IOException {
        network = HostNetwork.of(WORLD + 1);
        Path memory = Path.of("/dev/shm");
        directory = Files.isWritable(memory) ? Files.createTempDirectory(memory, "starling-network")
                : Files.createTempDirectory("starling-network");
    }

    @AfterEach
    void tearDown() throws IOException {
        programs.forEach(Program::close);
        if (network != null) {
            network.close();
        }
        if (directory != null) {
            try (Stream<Path> all = Files.walk(directory)) {
                for (Path each : all.sorted(Comparator.reverseOrder()).toList()) {
                    Files.delete(each);
                }
            }
        }
    }

    private static String hex() {
        byte[] bytes = new byte[32];
        new SecureRandom().nextBytes(bytes);
        return HexFormat.of().formatHex(bytes);
    }

    private static String coordinator() {
        return HostNetwork.address(0) + ':' + COORDINATOR_PORT;
    }

    private Program rank(String provider, String strategy, int rank, int host, long silenceMs, int steps) {
        return rank(provider, strategy, rank, host, PORT, silenceMs, steps, secret);
    }

    private Program rank(String provider, String strategy, int rank, int host, int port, long silenceMs, int steps,
            String known) {
        Program program = Program.start("rank " + rank + " on host " + host, network.on(host), RankProgram.class,
                List.of("provider=" + provider, "secret=" + known, "host=" + HostNetwork.address(host),
                        "port=" + port, "silence=" + silenceMs, "directory=" + directory,
                        "coordinator=" + coordinator(), "rank=" + rank, "world=" + WORLD, "strategy=" + strategy,
                        "steps=" + steps));
        programs.add(program);
        return program;
    }

    private List<Program> ranks(String provider, String strategy, long silenceMs, int steps) {
        WireProvider.Availability availability = Transport.providers().get(provider).availability();
        assumeTrue(availability instanceof WireProvider.Availability.Ready, () -> provider + " is unavailable: "
                + availability);
        List<Program> ranks = new ArrayList<>();
        for (int rank = 0; rank < WORLD; rank++) {
            ranks.add(rank(provider, strategy, rank, rank, silenceMs, steps));
        }
        return ranks;
    }

    private static float[] weights(Program program) throws InterruptedException {
        String[] words = program.await("done", END_S).split(" ");
        float[] weights = new float[words.length];
        for (int i = 0; i < words.length; i++) {
            weights[i] = Float.intBitsToFloat(Integer.parseUnsignedInt(words[i], 16));
        }
        return weights;
    }

    /** Stops ranks that run until they receive a stop. */
    private static void stop(List<Program> ranks) {
        ranks.forEach(each -> each.send("stop"));
    }

    private static void assertAllEqual(List<Program> ranks, float[] expected) throws InterruptedException {
        float[] first = weights(ranks.getFirst());
        assertThat(first).containsExactly(expected, within(ROUNDING));
        assertSameBits(ranks, first);
    }

    private static void assertSameBits(List<Program> ranks, float[] first) throws InterruptedException {
        for (Program rank : ranks) {
            assertThat(weights(rank)).isEqualTo(first);
            rank.awaitEnd(END_S);
        }
    }

    private static float[] alone() {
        return LineFit.train(new SingleProcess(), STEPS, new TrainingListener() { });
    }

    // ---- a bad network ----

    @Test
    void trainsByRingLikeOneProcessWithPacketLoss() throws Exception {
        trainByRingOverALossyNetwork("aeron");
    }

    @Test
    @Tag("stress")
    void trainsByRingOverUcxWithPacketLoss() throws Exception {
        trainByRingOverALossyNetwork("ucx");
    }

    @Test
    @Tag("stress")
    void trainsByRingOverTcpWithPacketLoss() throws Exception {
        trainByRingOverALossyNetwork("tcp");
    }

    private void trainByRingOverALossyNetwork(String provider) throws Exception {
        for (int host = 0; host < WORLD; host++) {
            network.lose(host, 1);
        }
        assertAllEqual(ranks(provider, "ring", LONG_SILENCE_MS, STEPS), alone());
        for (int host = 0; host < WORLD; host++) {
            assertThat(network.lost(host)).as("packets lost on the way to rank %d", host).isPositive();
        }
    }

    @Test
    void learnsByGossipWithPacketLoss() throws Exception {
        for (int host = 0; host < WORLD; host++) {
            network.lose(host, 1);
        }
        for (Program rank : ranks("aeron", "gossip", LONG_SILENCE_MS, 400)) {
            // The error is 2 at the start. Ranks that are ahead mix in weights of ranks that are behind.
            assertThat(LineFit.error(weights(rank))).isLessThan(0.1);
            rank.awaitEnd(END_S);
        }
        assertThat(network.lost(0) + network.lost(1) + network.lost(2)).isPositive();
    }

    /** Two workers and a server. */
    @Test
    void trainsWithAServerLikeOneProcessWithPacketLoss() throws Exception {
        for (int host = 0; host < WORLD; host++) {
            network.lose(host, 1);
        }
        List<Program> ranks = ranks("aeron", "ps-sync", LONG_SILENCE_MS, STEPS);
        assertAllEqual(ranks.subList(0, 2), alone());
        ranks.get(2).await("done", END_S);
        ranks.get(2).awaitEnd(END_S);
        for (int host = 0; host < WORLD; host++) {
            assertThat(network.lost(host)).as("packets lost on the way to rank %d", host).isPositive();
        }
    }

    @Test
    @Tag("stress")
    void learnsWithAnAsynchronousServerWithPacketLoss() throws Exception {
        for (int host = 0; host < WORLD; host++) {
            network.lose(host, 1);
        }
        learnWithAServer(ranks("aeron", "ps", LONG_SILENCE_MS, 200));
        assertThat(network.lost(2)).as("packets lost on the way to the server").isPositive();
    }

    private static void learnWithAServer(List<Program> ranks) throws InterruptedException {
        for (Program worker : ranks.subList(0, 2)) {
            assertThat(LineFit.error(weights(worker))).isLessThan(0.1);
            worker.awaitEnd(END_S);
        }
        ranks.get(2).await("done", END_S);
        ranks.get(2).awaitEnd(END_S);
    }

    @Test
    void trainsByRingLikeOneProcessWithReorderedPackets() throws Exception {
        List<String> ways = new ArrayList<>();
        for (int to = 0; to < WORLD; to++) {
            ways.add(RELAY_PORT + to + "=" + HostNetwork.address(to) + ':' + PORT);
        }
        ways.add(RELAY_PORT + WORLD + "=" + coordinator());
        Program relay = Program.start("relay", network.inTheMiddle(), DelayingRelay.class, ways);
        programs.add(relay);
        for (int host = 0; host < WORLD; host++) {
            for (int to = 0; to < WORLD; to++) {
                if (to != host) {
                    network.divert(host, to, PORT, RELAY_PORT + to);
                }
            }
            if (host > 0) {
                network.divert(host, 0, COORDINATOR_PORT, RELAY_PORT + WORLD);
            }
        }
        relay.await("ready", START_S);
        assertAllEqual(ranks("aeron", "ring", LONG_SILENCE_MS, STEPS), alone());
        relay.await("overtaken", 1);
    }

    // ---- a rank is cut off ----

    @Test
    void reportsTheIsolatedRank() throws Exception {
        reportTheIsolatedRank("aeron");
    }

    @Test
    @Tag("stress")
    void reportsTheIsolatedRankOverUcx() throws Exception {
        reportTheIsolatedRank("ucx");
    }

    @Test
    @Tag("stress")
    void reportsTheIsolatedRankOverTcp() throws Exception {
        reportTheIsolatedRank("tcp");
    }

    private void reportTheIsolatedRank(String provider) throws Exception {
        List<Program> ranks = ranks(provider, "ring", SILENCE_MS, UNTIL_STOPPED);
        for (Program rank : ranks) {
            rank.awaitStep(20, WORLD, START_S);
        }
        long cutNs = System.nanoTime();
        network.cut(2);
        for (Program rank : ranks.subList(0, 2)) {
            String[] report = rank.await("lost", END_S).split(" ", 3);
            assertThat(TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - cutNs)).isLessThan(SILENCE_MS + SLACK_MS);
            assertThat(report[0]).as("the lost rank: %s", report[2]).isEqualTo("2");
            assertThat(Long.parseLong(report[1])).as("last heard ms ago").isBetween(SILENCE_MS / 2, SILENCE_MS
                    + SLACK_MS);
            assertThat(report[2]).contains("rank 2 is lost, last heard");
            rank.awaitEnd(END_S);
        }
        // The isolated rank receives nothing; which of the others it loses first is random.
        String[] report = ranks.get(2).await("lost", END_S).split(" ", 3);
        assertThat(report[0]).as(report[2]).isIn("0", "1", "-1");
        assertThat(report[2]).contains("is lost, last heard").contains("received nothing from");
        ranks.get(2).awaitEnd(END_S);
    }

    @Test
    @Tag("stress")
    void continuesWithoutAnIsolatedRankAndAdmitsAReplacement() throws Exception {
        continueWithoutAnIsolatedRankAndAdmitAReplacement("elastic");
    }

    @Test
    @Tag("stress")
    void gossipsWithoutAnIsolatedRankAndAdmitsAReplacement() throws Exception {
        continueWithoutAnIsolatedRankAndAdmitAReplacement("gossip");
    }

    private void continueWithoutAnIsolatedRankAndAdmitAReplacement(String strategy) throws Exception {
        List<Program> ranks = ranks("aeron", strategy, SILENCE_MS, UNTIL_STOPPED);
        for (Program rank : ranks) {
            rank.awaitStep(20, WORLD, START_S);
        }
        network.cut(2);
        for (Program rank : ranks.subList(0, 2)) {
            rank.awaitStep(30, WORLD - 1, (SILENCE_MS + SLACK_MS) / 1000);
            rank.awaitStep(rank.lastStep() + 50, WORLD - 1, END_S);
        }
        Program cutOff = ranks.remove(2);
        if (strategy.equals("elastic")) {
            // The rank cannot know whether the others continue, so it must end.
            assertThat(cutOff.await("lost", END_S)).startsWith("-1 ").contains("the coordinator is lost, last heard");
            cutOff.awaitEnd(END_S);
        } else {
            cutOff.close();
        }
        network.heal(2);
        long before = ranks.getFirst().lastStep();
        Program replacement = rank("aeron", strategy, 2, 2, SILENCE_MS, UNTIL_STOPPED);
        ranks.add(replacement);
        for (Program rank : ranks) {
            rank.awaitStep(before + 50, WORLD, START_S);
        }
        stop(ranks);
        if (strategy.equals("elastic")) {
            assertSameBits(ranks, weights(ranks.getFirst()));
        }
        for (Program rank : ranks) {
            // The error is 2 at the start. Ranks that are ahead mix in weights of ranks that are behind.
            assertThat(LineFit.error(weights(rank))).isLessThan(0.1);
            rank.awaitEnd(END_S);
        }
    }

    @Test
    @Tag("stress")
    void continuesWithoutAnIsolatedWorkerAndAdmitsAReplacement() throws Exception {
        long silenceMs = 2 * SILENCE_MS;
        List<Program> ranks = ranks("aeron", "ps", silenceMs, UNTIL_STOPPED);
        Program stays = ranks.getFirst();
        for (Program worker : ranks.subList(0, 2)) {
            worker.awaitStep(20, WORLD, START_S);
        }
        network.cut(1);
        stays.awaitStep(30, WORLD - 1, (silenceMs + SLACK_MS) / 1000);
        stays.awaitStep(stays.lastStep() + 50, WORLD - 1, END_S);
        ranks.get(1).close();
        network.heal(1);
        long before = stays.lastStep();
        ranks.set(1, rank("aeron", "ps", 1, 1, silenceMs, UNTIL_STOPPED));
        for (Program worker : ranks.subList(0, 2)) {
            worker.awaitStep(before + 50, WORLD, START_S);
        }
        stop(ranks.subList(0, 2));
        learnWithAServer(ranks);
    }

    @Test
    void waitsForAServerThatIsIsolatedForAWhile() throws Exception {
        List<Program> ranks = ranks("aeron", "ps", LONG_SILENCE_MS, UNTIL_STOPPED);
        List<Program> workers = ranks.subList(0, 2);
        for (Program worker : workers) {
            worker.awaitStep(20, WORLD, START_S);
        }
        network.cut(2);
        for (Program worker : workers) {
            worker.awaitStandstill(END_S);
        }
        network.heal(2);
        for (Program worker : workers) {
            worker.awaitStep(worker.lastStep() + 100, WORLD, END_S);
        }
        stop(workers);
        learnWithAServer(ranks);
    }

    // ---- others ----

    @Test
    void ignoresAStrangerAndASecondProcessAtThePort() throws Exception {
        List<Program> ranks = ranks("aeron", "ring", LONG_SILENCE_MS, UNTIL_STOPPED);
        Program stranger = rank("aeron", "ring", 1, WORLD, PORT, LONG_SILENCE_MS, STEPS, hex());
        for (Program rank : ranks) {
            rank.awaitStep(20, WORLD, START_S);
        }
        Program second = rank("aeron", "ring", 1, 1, PORT, LONG_SILENCE_MS, STEPS, secret);
        assertThat(stranger.await("failed", START_S)).contains("cannot join", coordinator(), "different secrets");
        stranger.awaitEnd(END_S);
        assertThat(second.await("failed", START_S)).isEqualTo("port " + PORT + " is in use at "
                + HostNetwork.address(1) + "; choose another port, or 0 for any that is free");
        second.awaitEnd(END_S);
        for (Program rank : ranks) {
            rank.awaitStep(rank.lastStep() + 20, WORLD, END_S);
        }
        stop(ranks);
        float[] first = weights(ranks.getFirst());
        assertThat(LineFit.error(first)).isLessThan(2);
        assertSameBits(ranks, first);
        assertThat(Long.parseLong(ranks.getFirst().await("refused", END_S))).isPositive();
    }
}
