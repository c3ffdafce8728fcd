package dev.starling.distributed.state;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.starling.nn.data.Share;
import java.util.Arrays;
import java.util.Random;
import org.junit.jupiter.api.Test;

class ThroughputTest {
    /** Sets rates until batches are divided again, and returns each rank's share of a batch. */
    private static double[] divide(Throughput throughput, double... rates) {
        for (int i = 0; i < Throughput.INTERVAL; i++) {
            for (int r = 0; r < rates.length; r++) {
                throughput.rate(r, (float) rates[r]);
            }
            throughput.step();
        }
        return parts(throughput, rates.length);
    }

    private static double[] parts(Throughput throughput, int world) {
        double[] parts = new double[world];
        int at = 0;
        for (int r = 0; r < world; r++) {
            Share.Part part = (Share.Part) throughput.share(r);
            assertThat(part.from()).as("begins at the end of the previous share").isEqualTo(at);
            at = part.to();
            parts[r] = (part.to() - part.from()) / (double) part.of();
        }
        assertThat(at).as("the whole batch").isEqualTo(((Share.Part) throughput.share(0)).of());
        return parts;
    }

    @Test
    void beginsWithEqualSharesAndFollowsRates() {
        Throughput throughput = new Throughput(3);
        assertThat(parts(throughput, 3)).containsExactly(new double[] {1 / 3.0, 1 / 3.0, 1 / 3.0}, within(1e-3));
        assertThat(divide(throughput, 400, 200, 100)).containsExactly(new double[] {4 / 7.0, 2 / 7.0, 1 / 7.0},
                within(1e-3));
        assertThat(divide(throughput, 100, 100, 600)).containsExactly(new double[] {1 / 8.0, 1 / 8.0, 6 / 8.0},
                within(1e-3));
    }

    @Test
    void leavesTheSlowestRankEnoughRowsToMeasure() {
        double[] parts = divide(new Throughput(2), 1e6, 1);
        // The lower bound of rates is m/16, where m is their mean.
        assertThat(parts[1]).isCloseTo(1 / 33.0, within(1e-3));
        double least = 1 / (64 + 3.0);
        assertThat(divide(new Throughput(4), 1e9, 1e-3, 1e-3, 1e-3)).containsExactly(new double[] {1 - 3 * least, least,
            least, least}, within(1e-3));
    }

    @Test
    void assumesAverageSpeedForRanksWithoutRows() {
        assertThat(divide(new Throughput(3), 300, 0, 100)).containsExactly(new double[] {3 / 6.0, 2 / 6.0, 1 / 6.0},
                within(1e-3));
        assertThat(divide(new Throughput(2), 0, 0)).containsExactly(0.5, 0.5);
    }

    @Test
    void keepsTheDivisionForSmallChanges() {
        Throughput throughput = new Throughput(2);
        double[] parts = divide(throughput, 300, 100);
        assertThat(divide(throughput, 310, 100)).containsExactly(parts);
        assertThat(divide(throughput, 400, 100)).containsExactly(new double[] {0.8, 0.2}, within(1e-3));
    }

    @Test
    void dividesTheWholeBatchAtAnyRates() {
        Random random = new Random(1);
        for (int trial = 0; trial < 500; trial++) {
            int world = 1 + random.nextInt(40);
            Throughput throughput = new Throughput(world);
            for (int turn = 0; turn < 3; turn++) {
                double[] rates = random.doubles(world).map(u -> u < 0.1 ? 0 : Math.exp(20 * u)).toArray();
                assertThat(Arrays.stream(divide(throughput, rates)).min().orElseThrow()).isPositive();
            }
        }
    }

    @Test
    void measuresWhileTheClockRuns() {
        Throughput throughput = new Throughput(2);
        assertThat(throughput.rate()).isZero();
        throughput.resume(1_000_000_000L);
        throughput.resume(1_500_000_000L);
        throughput.count(30);
        throughput.pause(3_000_000_000L);
        throughput.pause(9_000_000_000L);
        assertThat(throughput.rate()).isEqualTo(15);
        throughput.resume(20_000_000_000L);
        throughput.count(10);
        throughput.pause(28_000_000_000L);
        assertThat(throughput.rate()).isEqualTo(4);
    }
}
