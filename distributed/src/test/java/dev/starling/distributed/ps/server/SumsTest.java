package dev.starling.distributed.ps.server;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.ByteOrder;
import org.agrona.concurrent.UnsafeBuffer;
import org.junit.jupiter.api.Test;

class SumsTest {
    private static UnsafeBuffer message(long round, int count, double... values) {
        UnsafeBuffer message = new UnsafeBuffer(new byte[12 + 8 * values.length]);
        message.putLong(0, round, ByteOrder.LITTLE_ENDIAN);
        message.putInt(8, count, ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < values.length; i++) {
            message.putDouble(12 + 8 * i, values[i], ByteOrder.LITTLE_ENDIAN);
        }
        return message;
    }

    private static boolean receive(Sums sums, int worker, UnsafeBuffer message) {
        return sums.receive(worker, message, 0, message.capacity());
    }

    @Test
    void decodesMessagesAndIgnoresMalformedOnes() {
        Sums sums = new Sums(2);
        UnsafeBuffer early = message(-1, 1, 7);
        assertThat(sums.hasTotalFor(early, 0, early.capacity())).as("no round is complete").isFalse();
        assertThat(receive(sums, 0, message(0, 2, 1, 2))).isFalse();
        assertThat(receive(sums, 1, message(0, 3, 1, 2))).as("wrong count").isFalse();
        assertThat(sums.receive(1, message(0, 2, 1, 2), 0, 11)).as("too short").isFalse();
        assertThat(receive(sums, 1, message(0, 2, 3, 4))).isTrue();
        assertThat(sums.total()).containsExactly(4, 6);
        UnsafeBuffer repeated = message(0, 2, 1, 2);
        assertThat(sums.hasTotalFor(repeated, 0, repeated.capacity())).isTrue();
        assertThat(sums.hasTotalFor(repeated, 0, 11)).isFalse();
        UnsafeBuffer written = new UnsafeBuffer(new byte[28]);
        assertThat(sums.writeTotal(written, 0)).isEqualTo(28);
        assertThat(written.byteArray()).containsExactly(message(0, 2, 4, 6).byteArray());
    }

    @Test
    void sumsRoundByRound() {
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
    void ignoresValuesOfAnotherRound() {
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
