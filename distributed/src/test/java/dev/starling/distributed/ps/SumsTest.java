package dev.starling.distributed.ps;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class SumsTest {
    @Test
    void addsUpRoundByRound() {
        Sums sums = new Sums(2);
        for (int round = 0; round < 3; round++) {
            assertThat(sums.add(1, round, new double[] {1, round})).isFalse();
            assertThat(sums.add(1, round, new double[] {1, round})).as("again").isFalse();
            assertThat(sums.add(0, round, new double[] {2, 5})).isTrue();
            assertThat(sums.round()).isEqualTo(round);
            assertThat(sums.total()).containsExactly(3, 5 + round);
            assertThat(sums.add(0, round, new double[] {7, 7})).as("of a round that is over").isFalse();
        }
    }

    @Test
    void leavesOutWhatIsOfAnotherRound() {
        Sums sums = new Sums(2);
        sums.add(0, 0, new double[] {1});
        sums.add(1, 0, new double[] {1});
        sums.add(0, 1, new double[] {10});
        assertThat(sums.add(1, 0, new double[] {100})).as("earlier").isFalse();
        assertThat(sums.add(1, 2, new double[] {100})).as("later").isFalse();
        assertThat(sums.add(1, 1, new double[] {20})).isTrue();
        assertThat(sums.total()).containsExactly(30);
    }
}
