package dev.starling.jmh;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class StatisticsTest {
    @Test
    void findsTheFirstOfTheFastRuns() {
        double[] times = new double[40];
        Arrays.setAll(times, i -> i < 7 ? 30 : 10 + i % 2);
        assertThat(Statistics.settled(times)).isBetween(3, 7);
        times[20] = 1000;
        assertThat(Statistics.settled(times)).isBetween(3, 7);
        Arrays.fill(times, 10);
        assertThat(Statistics.settled(times)).isZero();
        Arrays.setAll(times, i -> 40 - 0.5 * i);
        assertThat(Statistics.settled(times)).isBetween(14, 30);
    }

    @Test
    void averagesRatiosByTheirProduct() {
        assertThat(Statistics.geometricMean(0.5, 2, 8)).isCloseTo(2, within(1e-12));
    }
}
